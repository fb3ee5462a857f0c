"""Roundings to 8 bits that do not say what their overflow becomes, or say two things."""

from __future__ import annotations

from lastbit.graph import Node, Round
from lastbit.patterns import replace
from lastbit.rounding import Rounding
from lastbit.rule import Edits, MismatchError, Site, Standing
from lastbit.unsafe import headroom, nodes_of
from lastbit.unsafe.ranges import ranges_of

NEED = "the value is rounded to a float of 8 bits that may become NaN or infinite"


def narrow(root: Node) -> list[Round]:
    """Return the roundings of a definition to float formats of 8 bits, if they have a choice."""
    return [node for node in nodes_of(root) if isinstance(node, Round) and _has_choice(node)]


def _has_choice(node: Round) -> bool:
    fmt = node.rounding.format
    return fmt.kind == "float" and fmt.is_grid and fmt.has_nan


def unstated(standing: Standing, name: str) -> str | None:
    """Return what a definition leaves open about overflow, as a sentence, or None."""
    before = standing.before
    for node in narrow(standing.program.nodes[name]):
        fmt = node.rounding.format
        top = float(fmt.max_finite)
        if ranges_of(standing).of(node.x).size <= top * headroom(node.rounding):
            continue
        if name not in standing.stated:
            return f"it does not say what {fmt.short} makes of values beyond {top:g}"
        old = narrow(before.nodes[name]) if before and name in before.nodes else []
        policies = {o.rounding.overflow for o in old if o.rounding.format == fmt}
        if policies and node.rounding.overflow not in policies:
            was, now = f"`{min(policies)}`", f"`{node.rounding.overflow}`"
            return f"overflow of {fmt.short} is {now}, and {was} in the first graph"
    return None


def saturated(site: Site) -> Edits:
    """Return the site with roundings that saturate.

    Raises:
        MismatchError: it has none that does not.
    """
    root = site.node
    found = [node for node in narrow(root) if node.rounding.overflow != "saturate"]
    if not found:
        raise MismatchError(NEED)
    for node in found:
        old = node.rounding
        new = Rounding.of(old.format, old.mode, "saturate", old.subnormals, old.seed)
        root = replace(root, node, Round(node.x, new))
    return {site.name: root}
