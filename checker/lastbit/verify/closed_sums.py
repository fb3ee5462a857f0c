"""Sums that a rounding has closed, and sums inside them: what one rounding adds up in all."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from fractions import Fraction

from lastbit.graph import Map, Node, Reduce, Round, with_args
from lastbit.rounding import Rounding
from lastbit.verify.laws import is_exact, past_views, scaled_rounding, scaled_sum


def terms(node: Node) -> tuple[Node, ...]:
    """Return the operands of an unrounded sum, or nothing."""
    return node.args if isinstance(node, Map) and node.fn in ("add", "sub", "neg") else ()


def closes(node: Node, rounding: Rounding) -> bool:
    """Return whether a node is a sum closed by a rounding, or a view of one, that can be scaled."""
    base = past_views(node)
    match base:
        case Round(x=Map(fn="add" | "sub"), rounding=own):
            scales = scaled_rounding(own, Fraction(2)) is not None
        case Reduce(op="sum", acc=Rounding() as own) if not is_exact(base):
            scales = scaled_sum(base, Fraction(2)) is not None
        case _:
            return False
    same = (own.format, own.mode, own.seed) == (rounding.format, rounding.mode, rounding.seed)
    return same and scales


def leaves(root: Node, inside: Callable[[Node], tuple[Node, ...]]) -> list[Node]:
    """Return the nodes below `root` at which `inside` gives nothing."""
    seen, stack = {root.key}, [root]
    out = []
    while stack:
        node = stack.pop()
        below = inside(node)
        if not below:
            out.append(node)
        for arg in below:
            if arg.key not in seen:
                seen.add(arg.key)
                stack.append(arg)
    return out


def rebuilt(root: Node, new: Mapping[bytes, Node]) -> Node:
    """Return `root` over new leaves."""
    out, stack = dict(new), [root]
    while stack:
        node = stack.pop()
        if node.key in out:
            continue
        missing = [arg for arg in node.args if arg.key not in out]
        if missing:
            stack += [node, *missing]
        else:
            out[node.key] = with_args(node, out)
    return out[root.key]
