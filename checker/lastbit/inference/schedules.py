"""The schedules by which libraries sum matrix products: the space that is searched.

The plainest come first: one chain of steps over K; chains that are promoted to a wider accumulator;
split-K, contiguous or interleaved, with each order of the parts and each format in which they are
stored; split-K of promoted chains. Processors without matrix units deal terms to lanes, combine
these in halves as warps do, or halve the terms themselves.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import combinations

from lastbit.errors import LastbitError
from lastbit.formats import format_of
from lastbit.levels import Fused, Lanes, Pairwise, Promote, Schedule, Seq, Split, Stored
from lastbit.machines import MACHINES, Unit, check_operands
from lastbit.schedule import tree_of_pairs

EVERY = (32, 64, 128, 256, 512, 1024, 2048, 16, 48, 96, 192, 384, 768)  # terms between promotions
TILES = (64, 32, 128, 256, 16, 48, 96, 192, 1)  # terms that stay in one piece
DEALT_TILES = (64, 32, 128, 256, 16)  # of those that are dealt in turn
MOST_PIECES = 32
MOST_DEALT = 16  # pieces to which tiles are dealt in turn
EVERY_ORDER = (3, 4)  # pieces that are combined in every order
LANES = (2, 4, 8, 16, 32, 64, 128, 256, 512)
VECTORS = (1, 2, 4, 8)  # terms that a lane loads at a time
LANES_WITHIN = (2, 4, 8)  # lanes of a lane
MOST_OUTSIDE = 64  # lanes that have lanes
RUNS = (2, 4, 8, 16, 32, 64, 128)  # terms that are no longer halved
PROMOTED = (128, 256, 512)  # inside a split
PROMOTED_TILES = TILES[:-1]  # of such a split
WITHOUT_UNIT = ("ieee", "ieee_fma")


@dataclass(frozen=True, slots=True)
class Chain:
    """The steps of one kind of unit.

    Attributes:
        machine: the first machine that has it.
        unit: its unit.
        exact: whether the accumulator's format holds every product, on ordinary runs.
        also: other machines whose units add alike.
    """

    machine: str
    unit: Unit
    exact: bool
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
                found[facts] = Chain(name, unit, exact)
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
    for split in _splits(k, TILES):
        yield from ((2, schedule) for schedule in _combined(split, plain, narrow))
    if chain.unit.width == 1:
        yield from ((3, schedule) for schedule in _lanes(k, plain))
        yield from ((3, Pairwise(run)) for run in RUNS if run < k and _keeps_products(chain))
        return
    for split in _splits(k, PROMOTED_TILES):
        for promoted in wide:
            if promoted.every in PROMOTED and promoted.every < _length(split, k):
                yield from ((3, replace(split, inner=promoted, outer=o)) for o in _orders(split))


def _keeps_products(chain: Chain) -> bool:
    """Return whether no product is rounded before it is added, as `pairwise` of products says."""
    return chain.exact or chain.unit.method == "contracted"


def _splits(k: int, tiles_of: Sequence[int]) -> Iterator[Split]:
    """Yield the ways to deal K terms to pieces, each once."""
    seen: set[int] = set()
    for tile in tiles_of:
        tiles = -(-k // tile)
        for n in range(2, min(MOST_PIECES, tiles) + 1):
            size = -(-tiles // n) * tile
            if size not in seen and size < k:
                seen.add(size)
                yield Split(-(-k // size), tile=tile)
    for tile in DEALT_TILES:
        for n in range(2, min(MOST_DEALT, -(-k // tile) - 1) + 1):
            yield Split(n, tile=tile, deal="interleaved")


def _length(split: Split, k: int) -> int:
    assert isinstance(split.tile, int)
    tiles = -(-k // split.tile)
    return -(-tiles // _pieces(split)) * split.tile


def _pieces(split: Split) -> int:
    assert isinstance(split.n, int)
    return split.n


def _combined(split: Split, inner: Schedule, narrow: tuple[str, ...]) -> Iterator[Schedule]:
    orders = _orders(split)
    for outer in (*orders, *_other_orders(_pieces(split))):
        yield replace(split, inner=inner, outer=outer)
    for fmt in narrow:
        for outer in orders:
            yield replace(split, inner=inner, outer=outer, partials=fmt)
        yield replace(split, inner=inner, outer=Seq(acc=fmt), partials=fmt)
        yield replace(split, inner=inner, outer=Stored(fmt))


def _orders(split: Split) -> tuple[Schedule, ...]:
    n = _pieces(split)
    return (Seq(), Pairwise(), _backwards(n)) if n > 2 else (Seq(),)


@lru_cache(maxsize=64)
def _other_orders(n: int) -> tuple[Schedule, ...]:
    """Return every tree over a few pieces but those of `_orders`; nothing over more."""
    if n not in EVERY_ORDER:
        return ()
    usual = {_unordered(nested) for nested in _usual(n)}
    trees = [nested for nested in _trees(tuple(range(n))) if nested not in usual]
    return tuple(tree_of_pairs(nested) for nested in trees)


def _usual(n: int) -> Iterator[object]:
    forwards: object = 0
    for i in range(1, n):
        forwards = (forwards, i)
    yield forwards
    yield _nested_backwards(n)
    if n == 4:
        yield (0, 1), (2, 3)


def _trees(leaves: tuple[int, ...]) -> Iterator[object]:
    """Yield each binary tree over the leaves once, the smallest leaf of each pair first."""
    if len(leaves) == 1:
        yield leaves[0]
    for size in range(1, len(leaves)):
        for right in combinations(leaves[1:], size):
            left = tuple(leaf for leaf in leaves if leaf not in right)
            yield from ((a, b) for a in _trees(left) for b in _trees(right))


def _unordered(nested: object) -> object:
    """Return a tree with the smaller leaf of each pair first: addition is commutative."""
    if not isinstance(nested, tuple):
        return nested
    return tuple(sorted((_unordered(part) for part in nested), key=_first_leaf))


def _first_leaf(nested: object) -> int:
    while isinstance(nested, tuple):
        nested = nested[0]
    assert isinstance(nested, int)
    return nested


def _backwards(n: int) -> Schedule:
    """Return the tree that adds the last piece first."""
    return tree_of_pairs(_nested_backwards(n))


def _nested_backwards(n: int) -> object:
    nested: object = n - 1
    for i in range(n - 2, -1, -1):
        nested = (nested, i)
    return nested


def _lanes(k: int, plain: Schedule) -> Iterator[Schedule]:
    for n in LANES:
        for vector in VECTORS:
            if n * vector < k:
                for outer in _of_lanes(n):
                    yield Split(n, tile=vector, deal="interleaved", inner=plain, outer=outer)
        for within in LANES_WITHIN if n <= MOST_OUTSIDE else ():
            if n * within < k:
                for inner in _of_lanes(within)[:2]:
                    lane = Lanes(within, inner=plain, outer=inner)
                    yield from (Lanes(n, inner=lane, outer=outer) for outer in _of_lanes(n))


def _of_lanes(n: int) -> tuple[Schedule, ...]:
    return (Seq(), Pairwise(), halves(n)) if n > 2 else (Seq(),)


def halves(n: int) -> Schedule:
    """Return the tree that adds lane i + n/2 to lane i, then quarters, and so on."""
    schedule: Schedule = Seq()
    count = 2
    while count < n:
        schedule = Lanes(count, inner=Seq(), outer=schedule)
        count *= 2
    return schedule
