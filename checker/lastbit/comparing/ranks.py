"""The distance below which a share of the elements lies, exactly, without sorting them."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from fractions import Fraction

import numpy as np

from lastbit.comparing.elements import Codes
from lastbit.comparing.tally import Tally

_DIGITS = 16  # binary digits that one further pass settles


def rank(share: Fraction, count: int) -> int:
    """Return the rank, from 0, of the least value that has this share of `count` at or below it."""
    return max(0, -(-share.numerator * count // share.denominator) - 1)


def percentile(tally: Tally, share: Fraction, again: Callable[[], Iterable[Codes]]) -> int | None:
    """Return the least distance that a share of the pairs does not exceed.

    Args:
        tally: of all elements.
        share: as 99/100.
        again: gives the distances of the finite pairs that differ once more, in any order; asked
            only where the answer is too large to be counted one by one.

    Returns:
        the distance in ulp; null where no pair has one.
    """
    if not tally.numbers:
        return None
    left = rank(share, tally.numbers) - (tally.numbers - tally.apart)
    if left < 0:
        return 0
    below = np.cumsum(tally.small)
    if left < below[-1]:
        return int(np.searchsorted(below, left, side="right"))
    left -= int(below[-1])
    powers = np.cumsum(tally.powers)
    digits = int(np.searchsorted(powers, left, side="right"))
    left -= int(powers[digits - 1])
    return _refined(1 << (digits - 1), digits - 1, left, again)


def value_of_rank(left: int, again: Callable[[], Iterable[Codes]]) -> int:
    """Return the value of a rank, from 0, among 64-bit words.

    Args:
        left: the rank.
        again: gives the words anew, in any order.
    """
    return _refined(0, 64, left, again)


def _refined(low: int, digits: int, left: int, again: Callable[[], Iterable[Codes]]) -> int:
    """Return the value of a rank among those in [low, low + 2^digits), a few digits each pass."""
    while digits:
        settled = min(_DIGITS, digits)
        shift = digits - settled
        counts = np.zeros(1 << settled, np.int64)
        for block in again():
            values = block.astype(np.uint64)
            offsets = values[values >= np.uint64(low)] - np.uint64(low)
            if digits < 64:
                offsets = offsets[offsets >> np.uint64(digits) == 0]
            bins = offsets >> np.uint64(shift)
            counts += np.bincount(bins.astype(np.int64), minlength=len(counts))
        below = np.cumsum(counts)
        found = int(np.searchsorted(below, left, side="right"))
        left -= int(below[found - 1]) if found else 0
        low, digits = low + (found << shift), shift
    return low
