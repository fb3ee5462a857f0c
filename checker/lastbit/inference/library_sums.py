"""Orders in which libraries add up a row, for any number of elements.

Each is built for a length as an explicit tree, since what is left over at the end of a row fits no
level of a schedule. Sources: `pairwise_sum` in numpy's `loops_utils.h.src`; `cascade_sum` in ATen's
`SumKernel.cpp`, whose vectors hold 8 binary32 values on x86 and 4 on Arm, and which widens vectors
of 16-bit values to two of binary32 and adds these. The trees of numpy 2 and torch 2 were revealed
by `lastbit order` for lengths from 3 to 4096 and are the same.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from types import MappingProxyType
from typing import Any, Final

from lastbit.schedule import Nested, Schedule, tree_of_pairs

LONGEST: Final = 1 << 14  # of a row whose tree is built

_LEVELS: Final = 4  # of ATen's cascade
_TOGETHER: Final = 4  # vectors that it adds up side by side


def backwards(k: int) -> Nested:
    """Return the order from the last element to the first."""
    return _running(range(k - 1, -1, -1))


def numpy_sum(k: int) -> Nested:
    """Return numpy's order along a contiguous axis: halves, down to at most 128 elements."""
    return _numpy(0, k)


def _numpy(start: int, k: int) -> Nested:
    if k < 8:
        return _running(range(start, start + k))
    if k > 128:
        half = k // 2 - k // 2 % 8
        return _numpy(start, half), _numpy(start + half, k - half)
    whole = k - k % 8
    lanes = [_running(range(start + lane, start + whole, 8)) for lane in range(8)]
    a, b, c, d = ((lanes[i], lanes[i + 1]) for i in range(0, 8, 2))
    return _running([((a, b), (c, d)), *range(start + whole, start + k)])


def torch_sum(k: int, lanes: int = 8, widened: bool = False) -> Nested:
    """Return torch's order along a contiguous axis on a processor.

    Args:
        k: the number of elements.
        lanes: binary32 values in a vector.
        widened: whether the elements have 16 bits, so that a vector holds twice as many.
    """
    size = 2 * lanes if widened else lanes
    if k < size:
        return _side_by_side(range(k))
    whole = k - k % size
    rows = range(0, whole, size)

    def element(row: int, lane: int) -> Nested:
        return (row + lane, row + lane + lanes) if widened else row + lane

    sums = [_side_by_side([element(row, lane) for row in rows]) for lane in range(lanes)]
    return _running([*range(whole, k), *sums])


def _side_by_side(items: Sequence[Nested]) -> Nested:
    """Return four sums of every fourth item, what is left over added to the first of them."""
    count = len(items) // _TOGETHER
    sums = [_cascade(items[i : count * _TOGETHER : _TOGETHER]) for i in range(_TOGETHER)]
    first = _running([sums[0], *items[count * _TOGETHER :]])
    return _running([first, *sums[1:]])


def _cascade(items: Sequence[Nested]) -> Nested:
    """Return the sum in levels, each of which takes up full sums of the one below."""
    power = max(4, (len(items) - 1).bit_length() // _LEVELS if items else 0)
    step, sums = 1 << power, [()] * _LEVELS
    done = len(items) - len(items) % step
    for start in range(0, done, step):
        sums[0] = _running([sums[0], *items[start : start + step]])
        for level in range(1, _LEVELS):
            sums[level], sums[level - 1] = _running(sums[level - 1 : level + 1][::-1]), ()
            if (start + step) & ((step - 1) << (level * power)):
                break
    return _running([sums[0], *items[done:], *sums[1:]])


def _running(items: Sequence[Nested]) -> Nested:
    """Return the sum from the first item to the last; `()` is nothing.

    A sum that begins with an element begins with zero, as accumulators do.
    """
    total: Nested = ()
    for item in items:
        if item != ():
            total = (total, item) if total != () or isinstance(item, int) else item
    return total


Order = Callable[[int], Any]

ORDERS: Final[Mapping[str, Order]] = MappingProxyType(
    {
        "numpy.sum": numpy_sum,
        "torch.sum": torch_sum,
        "torch.sum of 16 bits": lambda k: torch_sum(k, widened=True),
        "torch.sum on Arm": lambda k: torch_sum(k, lanes=4),
        "last to first": backwards,
    }
)


@lru_cache(maxsize=256)
def schedule_of(order: str, k: int) -> Schedule:
    """Return the schedule of an order for a length."""
    return tree_of_pairs(ORDERS[order](k))
