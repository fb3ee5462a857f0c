"""Which elements of other values a definition needs, by the loops of the kernel that computes it.

A kernel runs along the axes of its result and along those of the sums and extremes on the way.
Each axis of each operand is indexed by a combination of these loops. The combinations are carried
down from the result through maps and views: a reshape takes positions apart into digits, a slice
moves them, and a concatenation limits them to the part that it passes on.

What is said of a need is exact as long as reshapes, slices and concatenations cut an axis between
digits; in the middle of one it takes in all positions, which can be too many and never too few.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple

from lastbit.graph import Input, Map, Node, Reduce, Round, Shape, View, topological


class Loop(NamedTuple):
    """A loop of a kernel.

    Attributes:
        place: -1 along the last axis of the result, -2 along the one before it ...; above 0 along
            the axes of sums and extremes: 1 if it waits for no other, 2 if it waits for such ...
        length: its positions.
        sums: whether it runs along the terms of a sum with an accumulator.
    """

    place: int
    length: int
    sums: bool = False


class Digit(NamedTuple):
    """A digit of a position: `position // stride % size`."""

    loop: Loop
    stride: int
    size: int


class Index(NamedTuple):
    """Where a loop nest stands along an axis: `start` and the sum of factor times digit.

    A loose index varies with its digits, and where it stands is not known.
    """

    start: int = 0
    terms: tuple[tuple[int, Digit], ...] = ()
    loose: bool = False


Indices = tuple[Index, ...]
Limit = tuple[Digit, int, int]  # the digit is at least the one number and below the other


@dataclass(frozen=True, slots=True)
class Need:
    """One way in which a kernel needs a node.

    Attributes:
        node: an operand, a map, or a reduction.
        indices: one for each axis; of a reduction, those of its terms.
        limits: the positions at which it is needed.
        outer: the loops of sums in whose terms it is computed anew, by a sum inside of a sum.
        result: the loops along the axes of the kernel's result.
        whole: loops that are not cut here: along them, a sum that is needed in several stages, as
            the scores of a softmax are for their maximum and for the weights, is there at once.
    """

    node: Node
    indices: Indices
    limits: frozenset[Limit]
    outer: frozenset[Loop]
    result: tuple[Loop, ...]
    whole: frozenset[Loop] = frozenset()

    @property
    def shape(self) -> Shape:
        """Return the lengths of the axes that are indexed."""
        return self.node.x.shape if isinstance(self.node, Reduce) else self.node.shape

    @property
    def loops(self) -> frozenset[Loop]:
        """Return the loops with which it varies."""
        return frozenset(digit.loop for index in self.indices for _, digit in index.terms)


Path = tuple[Node, Indices, frozenset[Limit], frozenset[Loop], frozenset[Loop]]


@lru_cache(maxsize=1 << 14)
def needs_of(root: Node) -> tuple[Need, ...]:
    """Return what a definition needs: other values, maps and reductions, each way once.

    A sum that is needed in several stages is computed once, and held.
    """
    found = _needs(root, frozenset())
    held = _in_stages(found)
    return _needs(root, held) if held else found


def _in_stages(needs: Iterable[Need]) -> frozenset[bytes]:
    """Return the sums that are needed along different loops of other sums and extremes."""
    stages: dict[bytes, set[frozenset[Loop]]] = {}
    for need in needs:
        if isinstance(need.node, Reduce) and need.node.acc is not None:
            stages.setdefault(need.node.key, set()).add(_stage(need.node, need.indices))
    return frozenset(key for key, found in stages.items() if len(found) > 1)


def _stage(node: Reduce, indices: Indices) -> frozenset[Loop]:
    others = (*indices[: node.axis], *indices[node.axis + 1 :])
    return frozenset(d.loop for index in others for _, d in index.terms if d.loop.place > 0)


def _needs(root: Node, held: frozenset[bytes]) -> tuple[Need, ...]:
    """Return the needs of a definition of which some sums are held."""
    rank = len(root.shape)
    result = tuple(Loop(axis - rank, size) for axis, size in enumerate(root.shape))
    levels = _levels(root)
    found: list[Need] = []
    seen: set[tuple[bytes, Indices, frozenset[Limit], frozenset[Loop], frozenset[Loop]]] = set()
    none: frozenset[Loop] = frozenset()
    stack: list[Path] = [(root, tuple(map(_along, result)), frozenset(), none, none)]
    while stack:
        node, indices, limits, outer, whole = stack.pop()
        if 0 in node.shape:
            continue
        limits = _relevant(limits, indices, outer)
        key = (node.key, indices, limits, outer, whole)
        if key in seen:
            continue
        seen.add(key)
        if isinstance(node, Reduce):
            if node.key in held:
                whole |= _stage(node, indices)
            outer = _outer(indices, outer)
            loop = Loop(levels[node.key], node.length, node.acc is not None)
            indices = (*indices[: node.axis], _along(loop), *indices[node.axis + 1 :])
        if isinstance(node, Input | Map | Reduce):
            found.append(Need(node, indices, limits, outer, result, whole))
        stack.extend(
            (arg, inner, kept, outer, whole) for arg, inner, kept in _below(node, indices, limits)
        )
    return tuple(found)


def _levels(root: Node) -> dict[bytes, int]:
    """Return the level of each node: how many reductions stand in the longest chain below it."""
    out: dict[bytes, int] = {}
    for node in topological([root]):
        below = max((out[arg.key] for arg in node.args), default=0)
        out[node.key] = below + isinstance(node, Reduce)
    return out


def _along(loop: Loop) -> Index:
    return Index(0, ((1, Digit(loop, 1, loop.length)),)) if loop.length != 1 else Index()


def _outer(indices: Indices, outer: frozenset[Loop]) -> frozenset[Loop]:
    """Return the loops inside of which a reduction runs; one that depends on none runs before."""
    varies = {d.loop for index in indices for _, d in index.terms if d.loop.place > 0}
    return outer | varies if varies else frozenset()


def _relevant(
    limits: frozenset[Limit], indices: Indices, outer: frozenset[Loop]
) -> frozenset[Limit]:
    """Return the limits without those of a reduction with which the node does not vary."""
    if not limits:
        return limits
    varies = {digit.loop for index in indices for _, digit in index.terms} | outer
    return frozenset(
        limit for limit in limits if limit[0].loop in varies or limit[0].loop.place < 0
    )


def _below(
    node: Node, indices: Indices, limits: frozenset[Limit]
) -> Iterator[tuple[Node, Indices, frozenset[Limit]]]:
    """Yield the arguments of a node, their indices, and the limits within which they are needed."""
    match node:
        case Round(x=x) | Reduce(x=x):
            yield x, indices, limits
        case Map(xs=xs) | View(kind="broadcast", xs=xs):
            for x in xs:
                yield x, _broadcast(x.shape, indices), limits
        case View(kind="transpose", xs=(x,), params=order):
            places = [int(str(axis)) for axis in order]
            yield x, tuple(indices[places.index(axis)] for axis in range(len(places))), limits
        case View(kind="reshape", xs=(x,)):
            yield x, _reshaped(x.shape, node.shape, indices), limits
        case View(kind="slice", xs=(x,)):
            moved = (
                _moved(i, *bounds[::2]) for i, bounds in zip(indices, node.bounds, strict=True)
            )
            yield x, tuple(moved), limits
        case View(kind="concat", xs=xs):
            axis, start = int(str(node.params[0])), 0
            for x in xs:
                part = _limited(indices[axis], start, x.shape[axis], limits)
                if part is not None:
                    yield x, (*indices[:axis], part[0], *indices[axis + 1 :]), part[1]
                start += x.shape[axis]


def _broadcast(shape: Shape, indices: Indices) -> Indices:
    """Return the indices of an argument: along an axis of length 1 it stands still."""
    last = indices[len(indices) - len(shape) :]
    return tuple(Index() if size == 1 else i for size, i in zip(shape, last, strict=True))


def _moved(index: Index, start: int, step: int) -> Index:
    if index.loose:
        return index
    terms = tuple((factor * step, digit) for factor, digit in index.terms)
    return Index(start + step * index.start, terms)


def _loosened(index: Index) -> Index:
    return Index(0, tuple((1, digit) for _, digit in index.terms), loose=True)


def _limited(
    index: Index, start: int, size: int, limits: frozenset[Limit]
) -> tuple[Index, frozenset[Limit]] | None:
    """Return the index within one part of a concatenation, or None where it never gets there."""
    if index.loose:
        return index, limits
    start -= index.start
    if not index.terms:
        return (Index(-start), limits) if start <= 0 < start + size else None
    moved = Index(-start, index.terms)
    factor, digit = max(index.terms, key=lambda term: abs(term[0]))
    if len(index.terms) > 1 and (factor < 0 or start % factor or size % factor):
        return _loosened(index), limits
    low, high = _digits(factor, start, start + size)
    low, high = max(low, 0), min(high, digit.size)
    for other in limits:
        if other[0] == digit:
            low, high = max(low, other[1]), min(high, other[2])
    if low >= high:
        return None
    rest = frozenset(limit for limit in limits if limit[0] != digit)
    if high == low + 1 and digit.loop.place > 0:
        terms = tuple(term for term in index.terms if term[1] != digit)
        return Index(-start + factor * low, terms), rest
    if (low, high) == (0, digit.size):
        return moved, rest
    return moved, rest | {(digit, low, high)}


def _digits(factor: int, start: int, stop: int) -> tuple[int, int]:
    """Return the range of digits d with start <= factor * d < stop."""
    if factor > 0:
        return -(-start // factor), -(-stop // factor)
    return -((stop - 1) // -factor), -start // -factor + 1


def _reshaped(old: Shape, new: Shape, indices: Indices) -> Indices:
    """Return the indices along `old`, of which `new` with its indices is a reshape.

    Axes are matched in groups of equal volume.
    """
    out: list[Index] = []
    i = j = 0
    while i < len(old):
        if old[i] == 1:
            out.append(Index())
            i += 1
            continue
        left, right, first_old, first_new = old[i], 1, i, j
        i += 1
        while left != right:
            if right < left:
                right *= new[j]
                j += 1
            else:
                left *= old[i]
                i += 1
        out += _regrouped(old[first_old:i], new[first_new:j], indices[first_new:j])
    return tuple(out)


def _regrouped(old: Shape, new: Shape, indices: Indices) -> list[Index]:
    """Return the indices along some axes that hold the same elements in the same order."""
    flat, volume = Index(), 1
    for size, index in zip(reversed(new), reversed(indices), strict=True):
        scaled = _moved(index, 0, volume)
        loose = scaled.loose or flat.loose
        flat = Index(flat.start + scaled.start, (*scaled.terms, *flat.terms), loose)
        volume *= size
    out, rest = [], flat
    for size in old:
        volume //= size
        parts = _divided(rest, volume)
        if parts is None:  # the digits do not fall apart: each axis runs along with all of them
            return [_loosened(flat) if length != 1 else Index() for length in old]
        out.append(parts[0] if size != 1 else Index())
        rest = parts[1]
    return out


def _divided(index: Index, divisor: int) -> tuple[Index, Index] | None:
    """Return the quotient and the remainder of an index, or None if they are no such sums."""
    if index.loose:
        return None
    if divisor == 1:
        return index, Index()
    above: list[tuple[int, Digit]] = []
    below: list[tuple[int, Digit]] = []
    for factor, digit in index.terms:
        if factor % divisor == 0:
            above.append((factor // divisor, digit))
        elif factor > 0 and factor * digit.size > divisor:
            loop, stride, size = digit
            inner, left = divmod(divisor, factor)
            if left or size % inner:
                return None
            above.append((1, Digit(loop, stride * inner, size // inner)))
            below.append((factor, Digit(loop, stride, inner)))
        else:
            below.append((factor, digit))
    quotient, start = divmod(index.start, divisor)
    reach = [factor * (digit.size - 1) for factor, digit in below]
    if start + sum(r for r in reach if r < 0) < 0:
        return None
    if start + sum(r for r in reach if r > 0) >= divisor:
        return None
    return Index(quotient, tuple(above)), Index(start, tuple(below))
