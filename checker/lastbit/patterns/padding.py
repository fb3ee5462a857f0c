"""Pad the axis that a sum or a maximum runs along, with a mask or without."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction

from lastbit.graph import (
    Const,
    Input,
    Map,
    Node,
    Reduce,
    Round,
    broadcast,
    concat,
    const,
    topological,
    with_args,
)
from lastbit.patterns import same_format
from lastbit.rule import MismatchError, Parameter, Site
from lastbit.schedule import Lanes, Promote, Schedule, Seq, Split

IDENTITY = {"sum": const(0), "max": Const(float("-inf")), "min": Const(float("inf"))}

PAD = Parameter("pad", "count", "elements appended to the axis")


def reductions(root: Node) -> list[Reduce]:
    """Return the sums and maxima of a definition along its longest reduced axis.

    Raises:
        MismatchError: there is none.
    """
    found = [node for node in topological([root]) if isinstance(node, Reduce)]
    if not found:
        raise MismatchError("the value holds a sum or a maximum")
    length = max(node.length for node in found)
    return [node for node in found if node.length == length]


def masked(root: Node, pad: int) -> Node:
    """Return a definition whose reductions read `pad` identities more.

    Raises:
        MismatchError: zeros at the end of a sum could change its tree.
    """
    chosen = {node.key for node in reductions(root)}

    def padded(node: Reduce, x: Node) -> Node:
        if node.op == "sum" and not _ends_alone(node.schedule):
            raise MismatchError("zeros at the end do not change the sum's tree")
        return _append(x, node.axis, pad, IDENTITY.get(node.op, IDENTITY["max"]))

    return same_format(root, _rebuilt(root, chosen, padded))


def unmasked(site: Site, name: str, pad: int) -> Node:
    """Return a definition whose reductions read what `pad` zeros more in their operands give.

    Elementwise functions that feed a reduction, in this definition or in those that it names,
    are evaluated at the zeros too: exp(0 - m) is not 0.
    """
    root = site.definition(name)
    chosen = {node.key for node in reductions(root)}

    def padded(node: Reduce, x: Node) -> Node:
        return _feed(site, x, node.axis - len(x.shape), pad)

    return same_format(root, _rebuilt(root, chosen, padded))


def _rebuilt(root: Node, chosen: set[bytes], padded: Callable[[Reduce, Node], Node]) -> Node:
    """Return a definition whose chosen reductions read another operand, made from the rebuilt."""
    out: dict[bytes, Node] = {}
    for node in topological([root]):
        if isinstance(node, Reduce) and node.key in chosen:
            x = padded(node, out[node.x.key])
            out[node.key] = Reduce(node.op, x, node.axis, node.schedule, node.acc)
        else:
            out[node.key] = with_args(node, out)
    return out[root.key]


def _feed(site: Site, x: Node, axis: int, pad: int) -> Node:
    """Return `x` with its axis padded where its elementwise functions begin."""
    if len(x.shape) < -axis or x.shape[axis] == 1:
        return x
    if isinstance(x, Input) and not site.program.is_input(x.name):
        definition = site.definition(x.name)
        x = definition if isinstance(definition, Map | Round) else x
    match x:
        case Map(fn=fn, xs=xs):
            return Map(fn, tuple(_feed(site, arg, axis, pad) for arg in xs))
        case Round(x=inner, rounding=rounding):
            return Round(_feed(site, inner, axis, pad), rounding)
    return _append(x, axis % len(x.shape), pad, const(Fraction(0)))


def _append(x: Node, axis: int, pad: int, value: Const) -> Node:
    shape = (*x.shape[:axis], pad, *x.shape[axis + 1 :])
    return concat((x, broadcast(value, shape)), axis)


def _ends_alone(schedule: Schedule | None) -> bool:
    """Return whether more elements at the end leave a tree as it is and are added last."""
    match schedule:
        case None | Seq():
            return True
        case Lanes(inner=inner, outer=outer) | Split(n=None, inner=inner, outer=outer):
            return _ends_alone(inner) and _ends_alone(outer)
        case Promote(inner=inner):
            return _ends_alone(inner)
    return False
