"""Schedules: one summation tree per output element.

`fold` is the one definition of every tree; a value domain brings its own algebra. This module
gathers what others need: the levels (`lastbit.levels`), their text form
(`split(3, tile=64, inner=fused(16, hopper), outer=seq)`, `lastbit.schedule_text`) and trees.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Protocol, TypeVar

from lastbit.explicit_tree import Nested, Tree, tree_of_pairs
from lastbit.levels import (
    AnyOrder,
    Fused,
    Lanes,
    Level,
    Pairwise,
    Parameter,
    Promote,
    Schedule,
    ScheduleError,
    Seq,
    Split,
    Stored,
    Table,
    bind,
    deterministic,
    formats,
    levels,
    plain,
    scaled,
    symbols,
)
from lastbit.schedule_text import parse_schedule

__all__ = [
    "Algebra",
    "AnyOrder",
    "Fused",
    "Lanes",
    "Level",
    "Nested",
    "Pairwise",
    "Parameter",
    "Promote",
    "Schedule",
    "ScheduleError",
    "Seq",
    "Split",
    "Stored",
    "Table",
    "Tree",
    "bind",
    "deterministic",
    "fold",
    "formats",
    "levels",
    "parse_schedule",
    "scaled",
    "symbols",
    "tree_hash",
    "tree_of",
    "tree_of_pairs",
]

V = TypeVar("V")


class Algebra(Protocol[V]):
    """What a value domain brings to `fold`; formats are the names given in the schedule."""

    def zero(self, fmt: str) -> V:
        """Return an empty accumulator of a format."""

    def leaf(self, i: int) -> V:
        """Return element i, exact: no format rounded it."""

    def add(self, a: V, b: V, fmt: str) -> V:
        """Return Round(a + b) in a format."""

    def fused(self, acc: V, terms: list[V], machine: str, fmt: str) -> V:
        """Return the accumulator after one step of a matrix unit (`hopper/16`) over terms."""

    def convert(self, value: V, fmt: str) -> V:
        """Return Round(value) in a format."""

    def any_order(self, values: list[V], fmt: str) -> V:
        """Return what adding the values in any order can give."""


def fold(schedule: Schedule, k: int, acc: str, algebra: Algebra[V]) -> V:
    """Evaluate the tree of a schedule over k elements: the one definition of every tree.

    Args:
        schedule: a bound schedule.
        k: the number of elements.
        acc: the accumulator format of the `Reduce`.
        algebra: the operations of a value domain.

    Returns:
        The result, in the format `acc`; zero when there are no elements.

    Raises:
        ScheduleError: a parameter is not bound, or an explicit tree has another number of leaves.
    """
    if k == 0:
        return algebra.zero(acc)
    return _level(schedule, range(k), algebra.leaf, acc, algebra)


def _level(
    level: Level, items: Sequence[int], get: Callable[[int], V], outside: str, algebra: Algebra[V]
) -> V:
    """Return the sum of get(i) for the items (at least one), in the format of the level outside."""
    acc = level.acc or outside
    match level:
        case Seq():
            value = _running(items, get, acc, algebra)
        case Stored(format=stored):
            value = _running(items, get, acc, algebra, stored)
        case Pairwise(leaf=leaf):
            value = _halves(items, get, acc, plain(level, "leaf", leaf), algebra)
        case Lanes(n=n, inner=inner, outer=outer, partials=partials):
            count = min(plain(level, "n", n), len(items))
            pieces = [items[i::count] for i in range(count)]
            value = _combined(pieces, get, acc, inner, outer, partials, algebra)
        case Split(inner=inner, outer=outer, partials=partials):
            pieces = _dealt(level, items)
            value = _combined(pieces, get, acc, inner, outer, partials, algebra)
        case Fused(k=k, unit=unit):
            value = algebra.zero(acc)
            for piece in _pieces(items, plain(level, "k", k)):
                value = algebra.fused(value, [get(i) for i in piece], unit, acc)
        case Promote(every=every, format=wide, inner=inner):
            value = algebra.zero(wide)
            for piece in _pieces(items, plain(level, "every", every)):
                part = _level(inner, piece, get, acc, algebra)
                part = algebra.convert(part, wide) if wide != acc else part
                value = algebra.add(value, part, wide)
            value = algebra.convert(value, acc) if wide != acc else value
        case Tree():
            value = _explicit(level, items, get, acc, algebra)
        case AnyOrder():
            value = algebra.any_order([get(i) for i in items], acc)
        case _:
            raise TypeError(f"{type(level).__name__} is no level of a schedule")
    return algebra.convert(value, outside) if acc != outside else value


def _running(
    items: Sequence[int],
    get: Callable[[int], V],
    acc: str,
    algebra: Algebra[V],
    stored: str | None = None,
) -> V:
    value = algebra.zero(acc)
    for i in items:
        value = algebra.add(value, get(i), acc)
        if stored and stored != acc:
            value = algebra.convert(algebra.convert(value, stored), acc)
    return value


def _halves(
    items: Sequence[int], get: Callable[[int], V], acc: str, leaf: int, algebra: Algebra[V]
) -> V:
    if len(items) <= leaf:
        return _running(items, get, acc, algebra)
    middle = -(-len(items) // 2)
    left = _halves(items[:middle], get, acc, leaf, algebra)
    return algebra.add(left, _halves(items[middle:], get, acc, leaf, algebra), acc)


def _combined(
    pieces: list[Sequence[int]],
    get: Callable[[int], V],
    acc: str,
    inner: Level,
    outer: Level,
    partials: str | None,
    algebra: Algebra[V],
) -> V:
    parts = [_level(inner, piece, get, acc, algebra) for piece in pieces]
    if partials and partials != acc:
        parts = [algebra.convert(algebra.convert(part, partials), acc) for part in parts]
    return _level(outer, range(len(parts)), parts.__getitem__, acc, algebra)


def _explicit(
    tree: Tree, items: Sequence[int], get: Callable[[int], V], acc: str, algebra: Algebra[V]
) -> V:
    if len(items) != tree.leaves:
        reason = f"it has {tree.leaves} leaves, and there are {len(items)} elements"
        raise ScheduleError("tree", reason, "Use a tree of that size.")
    if not tree.merges:
        return algebra.convert(get(items[0]), acc)
    results: dict[int, V] = {}
    for j, pair in enumerate(tree.merges):
        left, right = (
            algebra.zero(acc) if n < 0 else get(items[n]) if n < tree.leaves else results.pop(n)
            for n in pair
        )
        results[tree.leaves + j] = algebra.add(left, right, acc)
    return results[tree.leaves + len(tree.merges) - 1]


def _dealt(split: Split, items: Sequence[int]) -> list[Sequence[int]]:
    """Return the elements of each piece that has any."""
    if split.deal == "contiguous":
        return _pieces(items, _piece_size(split, len(items)))
    tiles = _pieces(items, plain(split, "tile", split.tile))
    n = min(plain(split, "n", split.n), len(tiles))
    return [[i for tile in tiles[first::n] for i in tile] for first in range(n)]


def _piece_size(split: Split, k: int) -> int:
    """Return the number of elements of each piece but the last."""
    if split.size is not None:
        return plain(split, "size", split.size)
    tile = plain(split, "tile", split.tile)
    tiles = -(-k // tile)
    return -(-tiles // plain(split, "n", split.n)) * tile


def _pieces(items: Sequence[int], size: int) -> list[Sequence[int]]:
    return [items[i : i + size] for i in range(0, len(items), size)]


class _PairsAlgebra:
    """Trees as nested tuples; a sum outside the main format and every other step are named."""

    def __init__(self, acc: str) -> None:
        self.acc = acc

    def zero(self, fmt: str) -> Nested:
        return ()

    def leaf(self, i: int) -> Nested:
        return i

    def add(self, a: Nested, b: Nested, fmt: str) -> Nested:
        return (a, b) if fmt == self.acc else (fmt, a, b)

    def fused(self, acc: Nested, terms: list[Nested], machine: str, fmt: str) -> Nested:
        return (machine, acc, *terms)

    def convert(self, value: Nested, fmt: str) -> Nested:
        return ("convert", fmt, value)

    def any_order(self, values: list[Nested], fmt: str) -> Nested:
        return ("any_order", *values)


def tree_of(schedule: Schedule, k: int, acc: str = "f32") -> Nested:
    """Return the tree of a bound schedule over k elements as nested tuples.

    An element is its index and zero is `()`. A pair is a sum in the format `acc`. Tuples that
    begin with a name: `("bf16", a, b)` is a sum in another format, `("convert", "bf16", a)`,
    `("hopper/16", acc, a, b ...)` a step of a matrix unit, and `("any_order", a, b ...)`.
    """
    return fold(schedule, k, acc, _PairsAlgebra(acc))


class _HashAlgebra:
    """Trees by hash; a value is (hash, format), and an element has the format `leaf_format`."""

    def __init__(self, leaf_format: str) -> None:
        self.leaf_format = leaf_format

    def zero(self, fmt: str) -> tuple[bytes, str]:
        return b"", fmt

    def leaf(self, i: int) -> tuple[bytes, str]:
        return b"%d" % i, self.leaf_format

    def add(self, a: tuple[bytes, str], b: tuple[bytes, str], fmt: str) -> tuple[bytes, str]:
        first, second = a[0], b[0]
        if not first and b[1] == fmt:
            return b
        if not second and a[1] == fmt:
            return a
        pair = first + b"+" + second if first < second else second + b"+" + first
        return _digest(fmt.encode() + b":" + pair), fmt

    def fused(
        self, acc: tuple[bytes, str], terms: list[tuple[bytes, str]], machine: str, fmt: str
    ) -> tuple[bytes, str]:
        parts = [f"{machine},{fmt}".encode(), acc[0], *sorted(term for term, _ in terms)]
        return _digest(b",".join(parts)), fmt

    def convert(self, value: tuple[bytes, str], fmt: str) -> tuple[bytes, str]:
        return value if value[1] == fmt else (_digest(fmt.encode() + b"=" + value[0]), fmt)

    def any_order(self, values: list[tuple[bytes, str]], fmt: str) -> tuple[bytes, str]:
        parts = [f"any_order,{fmt}".encode(), *sorted(value for value, _ in values)]
        return _digest(b",".join(parts)), fmt


def _digest(text: bytes) -> bytes:
    return hashlib.blake2b(text, digest_size=16).hexdigest().encode()


@lru_cache(maxsize=4096)
def tree_hash(schedule: Schedule, k: int, acc: str, representable: bool = False) -> int:
    """Return a 128-bit hash of the tree of a bound schedule; equal trees have equal hashes.

    Addition is commutative, and adding a value of the format to zero leaves it as it is, which
    holds on ordinary runs: a sum that rounds to nearest is never -0 there.

    Args:
        schedule: a bound schedule.
        k: the number of elements.
        acc: the accumulator format of the `Reduce`.
        representable: whether every element is known to be a value of `acc`, so that the first
            step, Round(0 + leaf), does nothing.
    """
    leaf_format = acc if representable else "exact"
    text, _ = fold(schedule, k, acc, _HashAlgebra(leaf_format))
    return int.from_bytes(hashlib.blake2b(text, digest_size=16).digest(), "big")
