"""Double rounding in front of a maximum or minimum, such as a ReLU between the two roundings."""

from __future__ import annotations

from fractions import Fraction

from lastbit.graph import Map, Node, Round, native_rounding
from lastbit.rounding import Rounding, round_exact
from lastbit.verify.laws import constant, contains, past_views, under_views, without_double_rounding


def without_rounding_of_chosen(x: Node, rounding: Rounding, known: dict[bytes, int | None]) -> Node:
    """Return the y with Round(x) = Round(y), where x chooses among values rounded before.

    Round never decreases, and leaves a constant c that it holds. So Round(max(First(a), c)) is
    max(Round(First(a)), c), which is max(Round(a), c) where the first rounding is harmless
    (`without_double_rounding`). A rounding of the maximum to the format of First does nothing, nor
    does one of an operand of a to a wider format.

    Args:
        x: what `rounding` rounds; views may stand before the maximum or minimum.
        rounding: the last rounding.
        known: digits of nodes by key, extended; see `digits`.
    """
    choice = past_views(x)
    if isinstance(choice, Round) and _keeps(choice):
        choice = choice.x
    if not isinstance(choice, Map) or choice.fn not in ("max", "min"):
        return x
    chosen: list[Node] = []
    for arg in choice.xs:
        value = constant(arg)
        if isinstance(value, Fraction) and round_exact(value, rounding) == value:
            chosen.append(arg)
            continue
        plain = _unwidened(arg)
        shorter = without_double_rounding(plain, rounding, known)
        if shorter is plain:
            return x
        chosen.append(Round(shorter, rounding))
    return under_views(x, Map(choice.fn, tuple(chosen)))


def _unwidened(x: Node) -> Node:
    """Return a rounded operation, its operands without roundings to wider formats."""
    node = past_views(x)
    if not isinstance(node, Round) or not isinstance(node.x, Map):
        return x
    return under_views(x, Round(Map(node.x.fn, tuple(map(_narrow, node.x.xs))), node.rounding))


def _narrow(x: Node) -> Node:
    node = past_views(x)
    own = native_rounding(node.x) if isinstance(node, Round) else None
    if not isinstance(node, Round) or own is None or not contains(node.rounding, own):
        return x
    kept = node.rounding.format.precision >= own.format.precision
    return under_views(x, node.x) if kept else x


def _keeps(node: Round) -> bool:
    """Return whether a rounding holds all of the values that a maximum or minimum chooses from."""
    if not isinstance(node.x, Map) or node.x.fn not in ("max", "min"):
        return False
    for arg in node.x.xs:
        value = constant(arg)
        kept = isinstance(value, Fraction) and round_exact(value, node.rounding) == value
        if not kept and native_rounding(arg) != node.rounding:
            return False
    return True
