"""How many elements of an operand all tiles of a kernel load, and how many one of them holds.

A tile loads each element that it needs once in each pass. So what is counted are pairs of a tile
and an element, over all ways in which a kernel needs an operand. Along a loop that the tile does
not cut, a way is a range of elements; along one that is cut, a range of positions, or of tiles
where the operand lacks the loop. Ways are boxes of such ranges, and the count is the volume of
their union.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache
from itertools import pairwise
from math import ceil, prod
from typing import NamedTuple

from lastbit.cost.placement import Tile
from lastbit.cost.reading import Digit, Index, Indices, Limit, Loop, Need
from lastbit.graph import Shape

Range = tuple[int, int]
MOST_POSITIONS = 1 << 18  # positions of a loop that are looked at one by one


class Place(NamedTuple):
    """A way in which a kernel needs an operand, in one tile shape.

    Attributes:
        key: what two ways share that may be laid over each other.
        box: the ranges in which they may differ.
        times: elements for each point of the box.
        block: the most elements that one tile, or one turn of a loop that is cut, needs.
    """

    key: tuple[object, ...]
    box: tuple[Range, ...]
    times: int
    block: int


class _Way(NamedTuple):
    """What of a need counts: see `Need`."""

    shape: Shape
    indices: Indices
    limits: frozenset[Limit]
    outer: frozenset[Loop]
    result: tuple[Loop, ...]
    whole: frozenset[Loop]


def extent(loop: Loop, tile: Tile) -> int:
    """Return how many positions of a loop a tile takes at a time."""
    if loop.place > 0:
        size = tile.depth
    elif loop.place == -1:
        size = tile.columns
    elif loop.place == -2:
        size = tile.rows
    else:
        size = 1 if tile.cuts else None  # a tile has two axes; others go index by index
    return loop.length if size is None else min(size, loop.length)


def place(need: Need, tile: Tile) -> Place:
    """Return how a way of needing an operand is counted in one tile shape."""
    way = _Way(need.shape, need.indices, need.limits, need.outer, need.result, need.whole)
    return _place(way, (tile.rows, tile.columns, tile.depth))


@lru_cache(maxsize=1 << 15)
def _place(need: _Way, sizes: tuple[int | None, int | None, int | None]) -> Place:
    tile = Tile(*sizes)
    used: dict[Loop, list[Digit]] = {}
    for index in need.indices:
        for _, digit in index.terms:
            used.setdefault(digit.loop, []).append(digit)
    cut = {}
    for loop in {*need.result, *used, *need.outer}:
        size = loop.length if loop in need.whole else extent(loop, tile)
        if size < loop.length:
            cut[loop] = size
        elif len(set(used.get(loop, ()))) < len(used.get(loop, ())):
            cut[loop] = loop.length  # a digit that two axes share is counted once
    limits: dict[Loop, list[Limit]] = {}
    for limit in need.limits:
        limits.setdefault(limit[0].loop, []).append(limit)
    spans = _spans(need, cut, limits, used)
    key: list[object] = []
    box: list[Range] = []
    times = block = 1
    for size, index, (first, count, step) in zip(need.shape, need.indices, spans, strict=True):
        count = min(count, size)
        far = tuple(term for term in index.terms if term[1].loop in cut)
        key.append((far, step, first % step))
        box.append((first // step, first // step + count))
        block *= count
    # What no loop of a reduction cuts stays for all turns of the sum around it.
    stays = not any(loop.place > 0 for loop in cut if loop in used and cut[loop] < loop.length)
    for loop in sorted(cut):
        size, digits = cut[loop], tuple(sorted(set(used.get(loop, ()))))
        tiled = loop.place < 0 or loop in need.outer
        whole = Digit(loop, 1, loop.length)
        bounds = limits.get(loop, [])
        if digits in ((), (whole,)) and all(limit[0] == whole for limit in bounds):
            low = max((limit[1] for limit in bounds), default=0)
            high = min((limit[2] for limit in bounds), default=loop.length)
            if digits:
                key.append(loop)
                box.append((low, high))
                block *= min(size, high - low)
            elif tiled and not (loop.place > 0 and stays):
                key.append((loop, "tiles"))
                box.append((low // size, ceil(high / size)))
        else:
            count, most = _pairs(loop, size if tiled else loop.length, digits, tuple(bounds))
            key.append((loop, digits, tuple(sorted(bounds))))
            times *= count
            block *= most if tiled else _pairs(loop, size, digits, tuple(bounds))[1]
    return Place(tuple(key), tuple(box), times, block)


def uncovered(needs: Iterable[Need], tile: Tile) -> list[Need]:
    """Return the needs of one operand, without those that a row which a block holds covers.

    A tile that reads all of an axis at once for a reduction has its own columns of it too.
    """
    ways = list(needs)
    if len(ways) < 2:
        return ways
    wide = [way for way in ways if any(loop.place > 0 for loop in way.loops)]
    return [way for way in ways if not any(_covers(other, way, tile) for other in wide)]


def _covers(wide: Need, need: Need, tile: Tile) -> bool:
    if wide.result != need.result or wide.outer != need.outer or not wide.limits <= need.limits:
        return False
    found = False
    for size, ours, theirs in zip(need.shape, need.indices, wide.indices, strict=True):
        if ours == theirs:
            continue
        own, other = _all_of(ours, size), _all_of(theirs, size)
        if own is None or other is None or own.place > 0 or other.place < 0:
            return False
        if other not in wide.whole and extent(other, tile) < other.length:
            return False
        if any(limit[0].loop == other for limit in wide.limits):
            return False
        found = True
    return found


def _all_of(index: Index, size: int) -> Loop | None:
    """Return the loop that runs along all of an axis, position by position."""
    if index.loose or index.start or len(index.terms) != 1:
        return None
    factor, digit = index.terms[0]
    whole = factor == digit.stride == 1 and digit.size == digit.loop.length == size
    return digit.loop if whole else None


def total(places: Iterable[Place]) -> int:
    """Return the elements that all tiles load, of one operand needed in several ways."""
    groups: dict[tuple[object, ...], tuple[int, list[tuple[Range, ...]]]] = {}
    for found in places:
        groups.setdefault((found.key, found.times), (found.times, []))[1].append(found.box)
    return sum(times * volume(boxes) for times, boxes in groups.values())


def volume(boxes: Iterable[tuple[Range, ...]]) -> int:
    """Return the number of points in a union of boxes of one dimension."""
    left = set(boxes)
    if not left:
        return 0
    if len(left) == 1:
        return prod(high - low for low, high in left.pop())
    ends = sorted({end for box in left for end in box[0]})
    out = 0
    for low, high in pairwise(ends):
        inner = {box[1:] for box in left if box[0][0] <= low and high <= box[0][1]}
        out += (high - low) * volume(inner)
    return out


def _spans(
    need: _Way, cut: dict[Loop, int], limits: dict[Loop, list[Limit]], used: dict[Loop, list[Digit]]
) -> list[tuple[int, int, int]]:
    """Return (first, count, step) for the part of each index that runs along loops not cut.

    A loop whose digits make no such ranges is added to `cut`, in one piece.
    """
    while True:
        out = []
        for index in need.indices:
            near = [term for term in index.terms if term[1].loop not in cut]
            span = None if index.loose and near else _span(index.start, near, limits, used)
            if span is None:
                cut.update((digit.loop, digit.loop.length) for _, digit in near)
                break
            out.append(span)
        else:
            return out


def _span(
    start: int,
    terms: list[tuple[int, Digit]],
    limits: dict[Loop, list[Limit]],
    used: dict[Loop, list[Digit]],
) -> tuple[int, int, int] | None:
    """Return (first, count, step) of the values of an index, or None if they are no such range."""
    if not terms:
        return start, 1, 1
    ordered = sorted(terms, key=lambda term: -abs(term[0]))
    step, count, low, high = ordered[-1][0], 1, 0, 0
    for place, (factor, digit) in reversed(list(enumerate(ordered))):
        bounds = _bounds(digit, limits, used)
        if bounds is None or factor != step * count or (place and bounds != (0, digit.size)):
            return None
        low, high = bounds[0] * count, bounds[1] * count
        count *= digit.size
    if step < 0:
        return start + step * (high - 1), high - low, -step
    return start + step * low, high - low, step


def _bounds(
    digit: Digit, limits: dict[Loop, list[Limit]], used: dict[Loop, list[Digit]]
) -> Range | None:
    """Return the range of a digit; None where limits on other digits of its loop play a part."""
    low, high = 0, digit.size
    for other, first, stop in limits.get(digit.loop, ()):
        if other == digit:
            low, high = max(low, first), min(high, stop)
        elif other not in used[digit.loop] and any(_overlap(other, d) for d in used[digit.loop]):
            return None
    return low, high


def _overlap(a: Digit, b: Digit) -> bool:
    return a.stride < b.stride * b.size and b.stride < a.stride * a.size


@lru_cache(maxsize=1 << 12)
def _pairs(
    loop: Loop, size: int, digits: tuple[Digit, ...], limits: tuple[Limit, ...]
) -> tuple[int, int]:
    """Return the pairs of a tile and values of some digits, and the most that one tile has.

    Of a loop with very many positions the answer may be too much, and is never too little.
    """
    if loop.length > MOST_POSITIONS:
        each = min(size, prod(digit.size for digit in digits))
        return min(loop.length, ceil(loop.length / size) * each), each
    found: dict[int, set[tuple[int, ...]]] = {}
    for position in range(loop.length):
        if all(low <= position // d.stride % d.size < high for d, low, high in limits):
            values = tuple(position // d.stride % d.size for d in digits)
            found.setdefault(position // max(size, 1), set()).add(values)
    counts = [len(values) for values in found.values()]
    return sum(counts), max(counts, default=0)
