"""Find a norm at a site: a value divided by its root mean square, and multiplied by a weight."""

from __future__ import annotations

from dataclasses import dataclass

from lastbit.graph import Map, Node, Round
from lastbit.patterns import find, is_map, outer_rounding, written_out
from lastbit.rule import MismatchError, Site

NO_NORM = "the value is a normalised value times a weight"


@dataclass(frozen=True, slots=True)
class Norm:
    """A norm in a definition.

    Attributes:
        rounding: the rounding of the result.
        product: the normalised value times the weight.
        normalised: the normalised value, as the product reads it.
        written: the same, its name written out; it may end in a rounding.
        weight: the weight.
    """

    rounding: Round
    product: Map
    normalised: Node
    written: Node
    weight: Node


def norm_in(site: Site, root: Node) -> Norm:
    """Return the norm in a definition of the site's program.

    Raises:
        MismatchError: it holds none.
    """
    for product in find(root, Map, lambda node: is_map(node, "mul")):
        for normalised, weight in (product.xs, product.xs[::-1]):
            written = written_out(site, normalised)
            if _normalises(site, written.x if isinstance(written, Round) else written):
                return Norm(outer_rounding(root), product, normalised, written, weight)
    raise MismatchError(NO_NORM)


def _normalises(site: Site, node: Node) -> bool:
    """Return whether a node is x * rsqrt(v) or x / sqrt(v), behind names and roundings."""
    if not isinstance(node, Map):
        return False
    factors = [written_out(site, x) for x in node.args]
    roots = [x.x if isinstance(x, Round) else x for x in factors]
    if node.fn == "mul":
        return any(is_map(x, "rsqrt") for x in roots)
    return node.fn == "div" and is_map(roots[1], "sqrt")
