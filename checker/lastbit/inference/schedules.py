"""The schedules by which libraries sum matrix products: the space that is searched.

The plainest come first: one chain of steps over K; chains that are promoted to a wider accumulator;
split-K, contiguous or interleaved, with each order of the parts and each format in which they are
stored; split-K of promoted chains. Processors without matrix units deal terms to lanes, and combine
these in halves as warps do.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

from lastbit.errors import LastbitError
from lastbit.formats import format_of
from lastbit.levels import Fused, Lanes, Pairwise, Promote, Schedule, Seq, Split, Stored
from lastbit.machines import MACHINES, Unit, check_operands
from lastbit.schedule import tree_of_pairs

EVERY = (32, 64, 128, 256, 512, 1024, 2048)  # terms between promotions
TILES = (64, 32, 128, 256, 16)  # terms that stay in one piece
MOST_PIECES = 32
MOST_DEALT = 16  # pieces to which tiles are dealt in turn
LANES = (2, 4, 8, 16, 32, 64, 128, 256, 512)
VECTORS = (1, 2, 4, 8)  # terms that a lane loads at a time
PROMOTED = (128, 256, 512)  # inside a split
WITHOUT_UNIT = ("ieee", "ieee_fma")


@dataclass(frozen=True, slots=True)
class Chain:
    """The steps of one kind of unit.

    Attributes:
        machine: the first machine that has it.
        unit: its unit.
        also: other machines whose units add alike.
    """

    machine: str
    unit: Unit
    also: tuple[str, ...] = ()

    @property
    def schedule(self) -> Fused:
        """Return the chain in the order of K."""
        return Fused(self.unit.width, self.machine)


@dataclass(frozen=True, slots=True)
class Candidate:
    """A schedule that is tried.

    Attributes:
        chain: what adds.
        schedule: how each output is summed.
        tier: how far it is from one plain chain.
    """

    chain: Chain
    schedule: Schedule
    tier: int


def chains_of(left: str, right: str, acc: str, machines: Iterable[str] | None) -> list[Chain]:
    """Return the units that multiply two formats; those that add alike are one.

    Args:
        left: the short name of the format of the left operand.
        right: that of the right one.
        acc: that of the accumulator.
        machines: the machines that count; plain processors count besides. None: all that are known.
    """
    names = MACHINES if machines is None else dict.fromkeys([*machines, *WITHOUT_UNIT])
    found: dict[tuple[object, ...], Chain] = {}
    digits = sum(format_of(fmt).precision for fmt in (left, right))
    exact = digits <= format_of(acc).precision  # products need no rounding, on ordinary runs
    for name in names:
        for unit in MACHINES[name].units:
            try:
                check_operands(unit, left, right, acc)
            except LastbitError:
                continue
            if unit.not_modelled:
                continue
            floor = unit.least_exponent(acc) if unit.method == "aligned" else None
            method = "rounded" if unit.method == "contracted" and exact else unit.method
            facts = (unit.width, unit.fraction_bits, method, unit.result_bits, floor)
            if facts in found:
                first = found[facts]
                found[facts] = replace(first, also=(*first.also, name))
            else:
                found[facts] = Chain(name, unit)
    return list(found.values())


def candidates(k: int, chains: Iterable[Chain], narrow: Iterable[str]) -> list[Candidate]:
    """Return the schedules that are tried over K terms, the plainest first.

    Args:
        k: the number of terms.
        chains: what adds.
        narrow: formats in which partial sums may be stored.
    """
    found: list[Candidate] = []
    stored = tuple(narrow)
    for chain in chains:
        for tier, schedule in _schedules(k, chain, stored):
            found.append(Candidate(chain, schedule, tier))
    return sorted(found, key=lambda candidate: candidate.tier)


def _schedules(k: int, chain: Chain, narrow: tuple[str, ...]) -> Iterator[tuple[int, Schedule]]:
    plain = chain.schedule
    yield 0, plain
    wide = [Promote(every, "f32", plain) for every in EVERY if every < k]
    for schedule in wide if chain.unit.width > 1 else ():
        yield 1, schedule
    for split in _splits(k):
        yield from ((2, schedule) for schedule in _combined(split, plain, narrow, k))
    if chain.unit.width == 1:
        yield from ((3, schedule) for schedule in _lanes(k, plain))
        return
    for split in _splits(k):
        for promoted in wide:
            if promoted.every in PROMOTED and promoted.every < _length(split, k):
                yield from ((3, schedule) for schedule in _combined(split, promoted, (), k))


def _splits(k: int) -> Iterator[Split]:
    """Yield the ways to deal K terms to pieces, each once."""
    seen: set[tuple[str | int, ...]] = set()
    for tile in TILES:
        tiles = -(-k // tile)
        for n in range(2, min(MOST_PIECES, tiles) + 1):
            size = -(-tiles // n) * tile
            if ("contiguous", size) not in seen:
                seen.add(("contiguous", size))
                yield Split(-(-k // size), tile=tile)
        for n in range(2, min(MOST_DEALT, tiles - 1) + 1):
            if ("interleaved", n, tile) not in seen:
                seen.add(("interleaved", n, tile))
                yield Split(n, tile=tile, deal="interleaved")


def _length(split: Split, k: int) -> int:
    assert isinstance(split.tile, int)
    tiles = -(-k // split.tile)
    return -(-tiles // _pieces(split)) * split.tile


def _pieces(split: Split) -> int:
    assert isinstance(split.n, int)
    return split.n


def _combined(split: Split, inner: Schedule, narrow: tuple[str, ...], k: int) -> Iterator[Schedule]:
    n = _pieces(split)
    outers: list[Schedule] = [Seq()]
    if n > 2:
        outers += [Pairwise(), _backwards(n)]
    for outer in outers:
        yield replace(split, inner=inner, outer=outer)
    for fmt in narrow:
        for outer in outers:
            yield replace(split, inner=inner, outer=outer, partials=fmt)
        yield replace(split, inner=inner, outer=Stored(fmt))


def _backwards(n: int) -> Schedule:
    """Return the tree that adds the last piece first."""
    nested: object = n - 1
    for i in range(n - 2, -1, -1):
        nested = (nested, i)
    return tree_of_pairs(nested)


def _lanes(k: int, plain: Schedule) -> Iterator[Schedule]:
    for n in LANES:
        for vector in VECTORS:
            if n * vector >= k:
                continue
            for outer in (Seq(), Pairwise(), halves(n)) if n > 2 else (Seq(),):
                yield Split(n, tile=vector, deal="interleaved", inner=plain, outer=outer)


def halves(n: int) -> Schedule:
    """Return the tree that adds lane i + n/2 to lane i, then quarters, and so on."""
    schedule: Schedule = Seq()
    count = 2
    while count < n:
        schedule = Lanes(count, inner=Seq(), outer=schedule)
        count *= 2
    return schedule
