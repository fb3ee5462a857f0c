"""The batch sizes at which the bits of row 0 change.

First the sizes asked for and those around which kernels are chosen: powers of two, one to either
side of them, multiples of tile sizes. Then, between neighbours with different bits, halving until
the size is found at which they change. Where few sizes remain, all of them are run.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import pairwise

from lastbit.audit.records import Segment, Thresholds

ALL_UP_TO = 64  # every size is run up to here
TILES = (48, 64, 96, 128, 192, 256)
MULTIPLES = 4  # of each tile


def sizes_to_scan(largest: int, asked: Iterable[int] = ()) -> tuple[int, ...]:
    """Return the sizes that are run in any case, in order.

    Args:
        largest: the largest.
        asked: those that the user names.
    """
    found = {1, largest, *asked}
    power = 1
    while power <= largest:
        found |= {power - 1, power, power + 1}
        power *= 2
    found |= {tile * n + d for tile in TILES for n in range(1, MULTIPLES + 1) for d in (0, 1)}
    if largest <= ALL_UP_TO:
        found |= set(range(1, largest + 1))
    return tuple(sorted(size for size in found if 1 <= size <= largest))


def thresholds(
    sizes: Sequence[int],
    result: Callable[[int], int],
    more: Callable[[], bool],
    known: Mapping[int, int] | None = None,
) -> Thresholds:
    """Return where the results of batch sizes change.

    Args:
        sizes: those to run first, in order.
        result: gives the number of the result of a size.
        more: whether there is time for another size.
        known: results of sizes that were run before.
    """
    found = dict(known or {})
    cut = False
    for size in _from_outside(sizes):
        if size in found:
            continue
        if len(found) >= 2 and not more():
            cut = True
            break
        found[size] = result(size)
    pending = _changing(found)
    while pending and not cut:
        low, high = pending.pop()
        if high - low == 1:
            continue
        if not more():
            cut = True
            break
        middle = (low + high) // 2
        found[middle] = result(middle)
        pending += [
            pair for pair in ((low, middle), (middle, high)) if found[pair[0]] != found[pair[1]]
        ]
    return _described(found, cut)


def _from_outside(sizes: Sequence[int]) -> list[int]:
    """Return the ends first, then halves of halves, so that an early end leaves a spread."""
    order, pending = [sizes[0], sizes[-1]], [(0, len(sizes) - 1)]
    while pending:
        low, high = pending.pop(0)
        if high - low > 1:
            middle = (low + high) // 2
            order.append(sizes[middle])
            pending += [(low, middle), (middle, high)]
    return list(dict.fromkeys(order))


def _changing(found: dict[int, int]) -> list[tuple[int, int]]:
    order = sorted(found)
    return [(a, b) for a, b in pairwise(order) if found[a] != found[b]]


def _described(found: dict[int, int], cut: bool) -> Thresholds:
    order = sorted(found)
    numbers: dict[int, int] = {}
    segments: list[Segment] = []
    for size in order:
        number = numbers.setdefault(found[size], len(numbers))
        if segments and segments[-1].result == number:
            segments[-1] = Segment(segments[-1].first, size, number)
        else:
            segments.append(Segment(size, size, number))
    changes = tuple(b for a, b in _changing(found) if b - a == 1)
    complete = len(order) == order[-1] - order[0] + 1
    return Thresholds(
        len(order), order[-1], len(numbers), changes, tuple(segments), complete, cut
    )  # fmt: skip
