"""Compute a part of a value: a window along its axes is pushed down to what the value is made from.

A tile of an output reads only the rows and columns that it needs. What cannot be cut on the way
down is computed whole, and its result is cut.
"""

from __future__ import annotations

from lastbit.graph import (
    Const,
    Input,
    Map,
    Node,
    Reduce,
    Round,
    Shape,
    View,
    broadcast,
    reshape,
    take,
    transpose,
)

Bounds = tuple[tuple[int, int], ...]
Request = tuple[Node, Bounds]


def window(root: Node, bounds: Bounds) -> Node:
    """Return the elements start to stop of a value along each axis, computed on their own."""
    built: dict[tuple[bytes, Bounds], Node] = {}
    stack: list[tuple[Request, bool]] = [((root, bounds), False)]
    while stack:
        (node, cut), ready = stack.pop()
        needs = _needs(node, cut)
        if ready:
            parts = tuple(built[need.key, want] for need, want in needs)
            built[node.key, cut] = _build(node, cut, parts)
        elif (node.key, cut) not in built:
            stack.append(((node, cut), True))
            stack.extend((need, False) for need in needs)
    return built[root.key, bounds]


def _needs(node: Node, cut: Bounds) -> list[Request]:
    """Return the windows of its arguments that a window of a node is computed from."""
    match node:
        case Map(xs=xs):
            return [(x, _narrowed(cut, node.shape, x.shape)) for x in xs]
        case Round(x=x):
            return [(x, cut)]
        case Reduce(x=x, axis=axis):
            return [(x, (*cut[:axis], (0, x.shape[axis]), *cut[axis + 1 :]))]
        case View(kind="broadcast", xs=(x,)):
            return [(x, _narrowed(cut, node.shape, x.shape))]
        case View(kind="transpose", xs=(x,), params=order):
            placed = {int(str(axis)): bounds for axis, bounds in zip(order, cut, strict=True)}
            return [(x, tuple(placed[axis] for axis in range(len(order))))]
        case View(kind="reshape", xs=(x,)) if _long(x.shape) == _long(node.shape):
            bounds = iter([b for b, size in zip(cut, node.shape, strict=True) if size != 1])
            return [(x, tuple((0, 1) if size == 1 else next(bounds) for size in x.shape))]
    return []


def _build(node: Node, cut: Bounds, parts: tuple[Node, ...]) -> Node:
    """Return a window of a node from the windows of its arguments."""
    shape = tuple(stop - start for start, stop in cut)
    match node:
        case Map(fn=fn):
            return Map(fn, parts)
        case Round(rounding=rounding):
            return Round(parts[0], rounding)
        case Reduce(op=op, axis=axis, schedule=schedule, acc=acc):
            return Reduce(op, parts[0], axis, schedule, acc)
        case View(kind="broadcast") if parts:
            return broadcast(parts[0], shape)
        case View(kind="transpose", params=order) if parts:
            return transpose(parts[0], tuple(int(str(axis)) for axis in order))
        case View(kind="reshape") if parts:
            return reshape(parts[0], shape)
        case Const():
            return node
    assert isinstance(node, Input | View)
    for axis, (start, stop) in enumerate(cut):
        node = take(node, axis, start, stop)
    return node


def _narrowed(cut: Bounds, shape: Shape, arg: Shape) -> Bounds:
    """Return the bounds along the axes of an argument that broadcasts."""
    last = list(zip(cut, shape, strict=True))[len(shape) - len(arg) :]
    return tuple(
        (0, 1) if size == 1 != whole else bounds
        for size, (bounds, whole) in zip(arg, last, strict=True)
    )


def _long(shape: Shape) -> list[int]:
    return [size for size in shape if size != 1]
