"""Schedules over K products as one graph of chains and what combines them.

Schedules of the space (`lastbit.inference.schedules`) are made of chains of steps over parts of K,
which are then added and rounded. Here each such value has a number, and what is computed in the
same way has the same number: so schedules share their parts, and two schedules with one number give
the same bits on ordinary runs. Additions commute, adding to zero what the format holds changes
nothing, nor does a conversion to a format that holds the value, and adding one more product to a
chain of single products goes on with it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Final, TypeAlias

import numpy as np

from lastbit.engine.wide import carrier
from lastbit.formats import Format, format_of
from lastbit.levels import Fused, Lanes, Level, Pairwise, Promote, Schedule, Split
from lastbit.machines import Unit, unit_of
from lastbit.patterns import pieces_of
from lastbit.schedule import fold, tree_hash

Terms: TypeAlias = range | tuple[int, ...]  # places along K, in the order of the steps

ZERO: Final = 0
ONE_BY_ONE: Final = Fused(1, "ieee")  # adds each product, rounded
CONTRACTED: Final = Fused(1, "ieee_fma")  # adds each product, exact


class ApartError(Exception):
    """A schedule of a form that is not taken apart here."""


@dataclass(frozen=True, slots=True)
class Chain:
    """Steps of a unit over terms.

    Attributes:
        level: the steps.
        terms: which products they add.
    """

    level: Fused
    terms: Terms


@dataclass(frozen=True, slots=True)
class Sum:
    """Round(a + b) in a format; a and b are numbers of values."""

    a: int
    b: int
    format: str


@dataclass(frozen=True, slots=True)
class Rounded:
    """Round(a) in a format; a is the number of a value."""

    a: int
    format: str


Node: TypeAlias = Chain | Sum | Rounded | None  # None is zero


@dataclass
class Trees:
    """Values over K products, each with a number above those of what it is computed from.

    Attributes:
        k: the number of products.
        acc: the short name of the format of the accumulators.
        exact: whether that format holds every product, on ordinary runs.
        nodes: the values.
    """

    k: int
    acc: str
    exact: bool
    nodes: list[Node] = field(default_factory=lambda: [None])
    _formats: list[str] = field(default_factory=list)  # that hold the values
    _numbers: dict[Node, int] = field(default_factory=dict)
    _chains: dict[tuple[Fused, Terms], int] = field(default_factory=dict)
    _parts: dict[tuple[Level, Terms], list[int]] = field(default_factory=dict)
    _terms: dict[tuple[Level, Terms], list[Terms]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._formats.append(self.acc)

    def of(self, schedule: Schedule) -> int:
        """Return the number of the result of a bound schedule.

        Raises:
            ApartError: the schedule is of another form than chains that are promoted, split, dealt
                to lanes or halved, with a format of its own at the level that combines them.
        """
        return self._walk(schedule, range(self.k))

    def key(self, schedule: Schedule) -> int | str:
        """Return what is equal for equal trees: a number, or text for another form."""
        try:
            return self.of(schedule)
        except ApartError:
            return f"tree {tree_hash(schedule, self.k, self.acc)}"

    def _walk(self, level: Level, terms: Terms) -> int:
        if level.acc is not None:
            raise ApartError
        match level:
            case Fused():
                return self._chain(level, terms)
            case Pairwise(leaf=int(leaf)):
                return self._halves(terms, leaf)
            case Promote(every=int(every), format=wide, inner=inner):
                total = ZERO
                for i in range(0, len(terms), every):
                    part = self.convert(self._walk(inner, _part(terms, i, every)), wide)
                    total = self.add(total, part, wide)
                return self.convert(total, self.acc)
            case Split(outer=outer, partials=stored) | Lanes(outer=outer, partials=stored):
                parts = self._pieces(level, terms)
                if stored is not None:
                    parts = [self.convert(part, stored) for part in parts]
                return fold(outer, len(parts), self.acc, _Outer(self, parts))
        raise ApartError

    def _halves(self, terms: Terms, leaf: int) -> int:
        if len(terms) <= leaf:
            return self._chain(CONTRACTED, terms)
        middle = -(-len(terms) // 2)
        left = self._halves(_part(terms, 0, middle), leaf)
        right = self._halves(_part(terms, middle, middle), leaf)
        return self.add(left, right, self.acc)

    def _pieces(self, level: Split | Lanes, terms: Terms) -> list[int]:
        """Return the result of each piece or lane, before it is stored."""
        bare = _bare(level)
        dealt, inner = (bare, terms), (replace(bare, inner=level.inner), terms)
        if dealt not in self._terms:
            places = pieces_of(level, len(terms))
            self._terms[dealt] = [plain_terms([terms[i] for i in piece]) for piece in places]
        if inner not in self._parts:
            self._parts[inner] = [self._walk(level.inner, own) for own in self._terms[dealt]]
        return self._parts[inner]

    def _chain(self, level: Fused, terms: Terms) -> int:
        key = level, terms
        if key not in self._chains:
            unit = unit_of(level.unit)
            if unit.width == 1 and self.exact and unit.method in ("rounded", "contracted"):
                level = ONE_BY_ONE
            self._chains[key] = self._number(Chain(level, terms), self.acc)
        return self._chains[key]

    def add(self, a: int, b: int, fmt: str) -> int:
        """Return the number of a rounded sum."""
        if ZERO in (a, b):
            return self.convert(max(a, b), fmt)
        longer = self._longer(a, b) if fmt == self.acc else None
        return longer or self._number(Sum(min(a, b), max(a, b), fmt), fmt)

    def _longer(self, a: int, b: int) -> int | None:
        """Return the number of the chain that goes on with one more product, if a sum is one."""
        one, other = self.nodes[a], self.nodes[b]
        if not (isinstance(one, Chain) and isinstance(other, Chain)):
            return None
        if one.level != other.level or not _goes_on(unit_of(one.level.unit), self.exact):
            return None
        last, first = sorted((one.terms, other.terms), key=len)
        if len(last) != 1:
            return None
        terms = [*first, *last]
        return self._chain(one.level, plain_terms(sorted(terms[:2]) + terms[2:]))

    def parts(self, number: int) -> tuple[int, ...]:
        """Return the numbers of what is added in the end, whatever the order; sorted."""
        found, todo = [], [number]
        while todo:
            node = self.nodes[last := todo.pop()]
            if isinstance(node, Sum) and node.format == self.acc:
                todo += (node.a, node.b)
            else:
                found.append(last)
        return tuple(sorted(found))

    def convert(self, value: int, fmt: str) -> int:
        """Return the number of a rounded value."""
        held = self._formats[value]
        if value == ZERO or held == fmt or _holds(format_of(fmt), format_of(held)):
            return value
        return self._number(Rounded(value, fmt), fmt)

    def _number(self, node: Node, fmt: str) -> int:
        number = self._numbers.setdefault(node, len(self.nodes))
        if number == len(self.nodes):
            if carrier(format_of(fmt)) is np.float64 is not carrier(format_of(self.acc)):
                del self._numbers[node]
                raise ApartError
            self.nodes.append(node)
            self._formats.append(fmt)
        return number


def plain_terms(terms: Sequence[int]) -> Terms:
    """Return terms as a range where they are one, so that equal ones are equal."""
    step = terms[1] - terms[0] if len(terms) > 1 else 1
    if step > 0 and terms[-1] == terms[0] + step * (len(terms) - 1):
        regular = range(terms[0], terms[-1] + 1, step)
        if len(terms) <= 2 or list(terms) == list(regular):
            return regular
    return tuple(terms)


def _part(terms: Terms, start: int, length: int) -> Terms:
    part = terms[start : start + length]
    return part if isinstance(part, range) else plain_terms(part)


def _bare(level: Split | Lanes) -> Split:
    """Return how a level deals terms."""
    if isinstance(level, Lanes):
        return Split(level.n, deal="interleaved")
    return Split(level.n, level.size, level.tile, deal=level.deal)


def _goes_on(unit: Unit, exact: bool) -> bool:
    """Return whether adding one more product to a chain's result is one more step of it."""
    return unit.method == "rounded" or (unit.method == "contracted" and exact)


@lru_cache(maxsize=256)
def _holds(wide: Format, narrow: Format) -> bool:
    """Return whether one format holds every value of another."""
    return (
        wide.kind == narrow.kind == "float"
        and narrow.precision <= wide.precision
        and narrow.emax <= wide.emax
        and narrow.emin - narrow.precision >= wide.emin - wide.precision
    )


@dataclass(frozen=True, slots=True)
class _Outer:
    """The algebra of the level that combines parts."""

    trees: Trees
    parts: list[int]

    def zero(self, fmt: str) -> int:
        return ZERO

    def leaf(self, i: int) -> int:
        return self.parts[i]

    def add(self, a: int, b: int, fmt: str) -> int:
        return self.trees.add(a, b, fmt)

    def convert(self, value: int, fmt: str) -> int:
        return self.trees.convert(value, fmt)

    def fused(self, acc: int, terms: list[int], machine: str, fmt: str) -> int:
        raise ApartError  # a matrix unit adds products, not partial sums

    def any_order(self, values: list[int], fmt: str) -> int:
        raise ApartError
