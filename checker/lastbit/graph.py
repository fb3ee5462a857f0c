"""The operator graph: immutable nodes in single-assignment form.

Five kinds of node; nothing rounds unless a node says so:

- `Input` and `Const` are where values come from;
- `Map` is an elementwise function with its exact real meaning;
- `Round` is the only place where a real number becomes a value of a format;
- `Reduce` is a sum, maximum, minimum or choice (`lastbit.choices`) along one axis, with the tree
  that evaluates a sum;
- `View` moves values and computes nothing.

A `Reduce` keeps its axis with size 1; the arguments of a `Map` broadcast as in numpy.
Every node carries a structural `key`: equal keys mean the same computation.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from typing import cast

from lastbit.errors import LastbitError
from lastbit.formats import Format
from lastbit.rounding import Rounding
from lastbit.schedule import Schedule

Shape = tuple[int, ...]


class ShapeError(LastbitError):
    """Shapes that do not fit together."""


@dataclass(frozen=True, eq=False, slots=True, kw_only=True)
class Node:
    """What all nodes have: a shape, and a key that names the computation."""

    shape: Shape = ()
    key: bytes = field(init=False, repr=False, default=b"")

    @property
    def args(self) -> tuple[Node, ...]:
        """Return the nodes that this one reads."""
        return ()

    def _seal(self, *facts: object) -> None:
        digest = hashlib.blake2b(digest_size=16)
        digest.update(repr((type(self).__name__, self.shape, facts)).encode())
        for arg in self.args:
            digest.update(arg.key)
        object.__setattr__(self, "key", digest.digest())


@dataclass(frozen=True, eq=False, slots=True)
class Input(Node):
    """A value given from outside, already a value of `format`."""

    name: str
    format: Format

    def __post_init__(self) -> None:
        self._seal(self.name, self.format.name)


@dataclass(frozen=True, eq=False, slots=True)
class Const(Node):
    """A constant: an exact rational, a special float, or a named real such as `ln2`."""

    value: Fraction | float | str

    def __post_init__(self) -> None:
        self._seal(repr(self.value))


@dataclass(frozen=True, eq=False, slots=True)
class Map(Node):
    """An elementwise function of the reals; its arguments broadcast."""

    fn: str
    xs: tuple[Node, ...]

    @property
    def args(self) -> tuple[Node, ...]:
        """Return the arguments."""
        return self.xs

    def __post_init__(self) -> None:
        object.__setattr__(self, "shape", broadcast_shapes(*(x.shape for x in self.xs)))
        self._seal(self.fn)


@dataclass(frozen=True, eq=False, slots=True)
class Round(Node):
    """The rounding of a real to a value of a format."""

    x: Node
    rounding: Rounding

    @property
    def args(self) -> tuple[Node, ...]:
        """Return the value that is rounded."""
        return (self.x,)

    def __post_init__(self) -> None:
        object.__setattr__(self, "shape", self.x.shape)
        self._seal(str(self.rounding))


@dataclass(frozen=True, eq=False, slots=True)
class Reduce(Node):
    """A sum, maximum, minimum or choice along `axis`, which stays with size 1.

    A sum whose `acc` is None is exact; else `schedule` is its tree and `acc` the rounding
    of each addition at the tree's root level.
    """

    op: str
    x: Node
    axis: int
    schedule: Schedule | None = None
    acc: Rounding | None = None

    @property
    def args(self) -> tuple[Node, ...]:
        """Return the operand."""
        return (self.x,)

    @property
    def length(self) -> int:
        """Return the number of terms of each output element."""
        return self.x.shape[self.axis]

    def __post_init__(self) -> None:
        rank = len(self.x.shape)
        if not -rank <= self.axis < rank:
            raise ShapeError(f"axis {self.axis} does not exist in the shape {list(self.x.shape)}.")
        axis = self.axis % rank
        object.__setattr__(self, "axis", axis)
        shape = (*self.x.shape[:axis], 1, *self.x.shape[axis + 1 :])
        object.__setattr__(self, "shape", shape)
        self._seal(self.op, axis, str(self.schedule), str(self.acc))


@dataclass(frozen=True, eq=False, slots=True)
class View(Node):
    """An index map: `reshape`, `transpose`, `slice`, `concat` or `broadcast`.

    `params` holds the target shape, the permutation, one (start, stop, step) for each axis,
    or the axis of the concatenation.
    """

    kind: str
    xs: tuple[Node, ...]
    params: tuple[object, ...] = ()

    @property
    def args(self) -> tuple[Node, ...]:
        """Return what is viewed."""
        return self.xs

    @property
    def bounds(self) -> tuple[tuple[int, int, int], ...]:
        """Return (start, stop, step) of each axis of a slice; stop may be -1, before the first."""
        return cast("tuple[tuple[int, int, int], ...]", self.params)

    def __post_init__(self) -> None:
        object.__setattr__(self, "shape", _view_shape(self))
        self._seal(self.kind, self.params)


def broadcast_shapes(*shapes: Shape) -> Shape:
    """Return the common shape of several shapes, as numpy does.

    Raises:
        ShapeError: two sizes of one axis differ and neither is 1.
    """
    rank = max((len(shape) for shape in shapes), default=0)
    out = [1] * rank
    for shape in shapes:
        for i, size in enumerate(shape, rank - len(shape)):
            if out[i] not in (1, size) and size != 1:
                listed = " and ".join(str(list(s)) for s in shapes)
                raise ShapeError(f"the shapes {listed} do not broadcast.")
            out[i] = size if out[i] == 1 else out[i]
    return tuple(out)


def _view_shape(view: View) -> Shape:
    first = view.xs[0].shape
    if view.kind in ("reshape", "broadcast"):
        shape = tuple(int(str(size)) for size in view.params)
        if view.kind == "broadcast" and broadcast_shapes(first, shape) != shape:
            raise ShapeError(f"{list(first)} does not broadcast to {list(shape)}.")
        if view.kind == "reshape" and _volume(shape) != _volume(first):
            raise ShapeError(
                f"{list(first)} cannot become {list(shape)}: other number of elements."
            )
        return shape
    if view.kind == "transpose":
        return tuple(first[int(str(axis))] for axis in view.params)
    if view.kind == "slice":
        return tuple(len(range(*bounds)) for bounds in view.bounds)
    if view.kind == "concat":
        axis = int(str(view.params[0]))
        rest = {x.shape[:axis] + x.shape[axis + 1 :] for x in view.xs}
        if len(rest) != 1:
            raise ShapeError(f"concat along axis {axis} needs equal other sizes.")
        total = sum(x.shape[axis] for x in view.xs)
        return (*first[:axis], total, *first[axis + 1 :])
    raise ShapeError(f"unknown view {view.kind!r}.")


def _volume(shape: Shape) -> int:
    out = 1
    for size in shape:
        out *= size
    return out


@dataclass(frozen=True, slots=True)
class Graph:
    """Named values in the order of the program, and which of them are results.

    Attributes:
        values: node by name, inputs first; a node may have one name at most.
        outputs: the names of the results.
    """

    values: Mapping[str, Node]
    outputs: tuple[str, ...]

    @property
    def inputs(self) -> tuple[Input, ...]:
        """Return the inputs in order."""
        return tuple(node for node in self.values.values() if isinstance(node, Input))

    @property
    def results(self) -> tuple[Node, ...]:
        """Return the nodes of the outputs."""
        return tuple(self.values[name] for name in self.outputs)

    def key(self) -> tuple[bytes, ...]:
        """Return the keys of the outputs: equal keys mean the same computation."""
        return tuple(node.key for node in self.results)


def topological(roots: Iterable[Node]) -> Iterator[Node]:
    """Yield every node that `roots` depend on, arguments first, each once; no recursion."""
    seen: set[bytes] = set()
    stack = [(root, False) for root in reversed(tuple(roots))]
    while stack:
        node, done = stack.pop()
        if done:
            yield node
        elif node.key not in seen:
            seen.add(node.key)
            stack.append((node, True))
            stack.extend((arg, False) for arg in reversed(node.args) if arg.key not in seen)


def substitute(roots: Iterable[Node], new: Mapping[bytes, Node]) -> dict[bytes, Node]:
    """Rebuild `roots` with the nodes of some keys replaced.

    Returns:
        the rebuilt node for the key of every node that `roots` depend on.
    """
    out: dict[bytes, Node] = {}
    for node in topological(roots):
        out[node.key] = new[node.key] if node.key in new else with_args(node, out)
    return out


def with_args(node: Node, by_key: Mapping[bytes, Node]) -> Node:
    """Return `node` reading the nodes that `by_key` gives for its arguments."""
    args = tuple(by_key.get(arg.key, arg) for arg in node.args)
    if all(new is old for new, old in zip(args, node.args, strict=True)):
        return node
    match node:
        case Map():
            return Map(node.fn, args)
        case Round():
            return Round(args[0], node.rounding)
        case Reduce():
            return Reduce(node.op, args[0], node.axis, node.schedule, node.acc)
        case View():
            return View(node.kind, args, node.params)
    return node


def native_rounding(node: Node) -> Rounding | None:
    """Return the rounding whose values `node` certainly holds, or None."""
    while isinstance(node, View) and len(node.xs) == 1:
        node = node.xs[0]
    match node:
        case Round(rounding=rounding):
            return rounding
        case Reduce(op="sum", acc=acc):
            return acc
        case Reduce(op=op, x=x) if op.split()[0] in ("max", "min"):
            return native_rounding(x)
        case Map(fn="abs" | "neg", xs=(x,)):
            inner = native_rounding(x)
            return inner if inner is not None and inner.format.kind == "float" else None
        case Input(format=fmt):
            return Rounding.of(fmt)
    return None


# Builders: the vocabulary in which rules write graphs.


def const(value: int | float | str | Fraction) -> Const:
    """Return a constant; an int becomes an exact rational."""
    return Const(Fraction(value) if isinstance(value, int) else value)


def apply(fn: str, *xs: Node | int | Fraction) -> Map:
    """Return an elementwise function of nodes and numbers."""
    return Map(fn, tuple(x if isinstance(x, Node) else const(x) for x in xs))


def reshape(x: Node, shape: Shape) -> Node:
    """Return `x` with another shape and the same elements in order."""
    return x if x.shape == shape else View("reshape", (x,), shape)


def transpose(x: Node, order: tuple[int, ...]) -> Node:
    """Return `x` with its axes in another order."""
    return View("transpose", (x,), order)


def broadcast(x: Node, shape: Shape) -> Node:
    """Return `x` repeated to `shape`."""
    return x if x.shape == shape else View("broadcast", (x,), shape)


def concat(xs: Iterable[Node], axis: int) -> Node:
    """Return `xs` one after the other along `axis`."""
    parts = tuple(xs)
    return parts[0] if len(parts) == 1 else View("concat", parts, (axis % len(parts[0].shape),))


def take(x: Node, axis: int, start: int, stop: int, step: int = 1) -> Node:
    """Return the elements start, start + step ... below stop along `axis`."""
    axis %= len(x.shape)
    if (start, stop, step) == (0, x.shape[axis], 1):
        return x
    bounds = tuple(
        (start, stop, step) if i == axis else (0, size, 1) for i, size in enumerate(x.shape)
    )
    return View("slice", (x,), bounds)


def chunks(x: Node, axis: int, size: int) -> list[Node]:
    """Return contiguous pieces of `x` of `size` elements along `axis`, the last one shorter."""
    length = x.shape[axis]
    return [take(x, axis, i, min(i + size, length)) for i in range(0, length, size)]


def matmul_terms(a: Node, b: Node) -> Node:
    """Return the products of a matrix product, f[M, N, K] for a[M, K] and b[K, N].

    Raises:
        ShapeError: the inner sizes differ, or a rank is not 2.
    """
    if len(a.shape) != 2 or len(b.shape) != 2 or a.shape[1] != b.shape[0]:
        raise ShapeError(
            f"matmul needs [M, K] and [K, N]; given {list(a.shape)} and {list(b.shape)}."
        )
    m, k, n = *a.shape, b.shape[1]
    return apply("mul", reshape(a, (m, 1, k)), reshape(transpose(b, (1, 0)), (1, n, k)))


def matmul(a: Node, b: Node, schedule: Schedule | None, acc: Rounding | None) -> Node:
    """Return the matrix product of a[M, K] and b[K, N], summed by `schedule` in `acc`."""
    terms = matmul_terms(a, b)
    return reshape(Reduce("sum", terms, 2, schedule, acc), terms.shape[:2])


def amax(x: Node, axis: int) -> Node:
    """Return the largest magnitude along `axis`."""
    return Reduce("max", apply("abs", x), axis)
