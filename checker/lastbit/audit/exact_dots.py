"""Exact dot products of many terms: integers in numpy, rationals only at the end.

Every number is cut into pieces of at most 24 binary digits, one for a binary32 value and three for
a binary64 value, so that 64-bit integers hold the products of pieces. These are dealt by exponent
to limbs of 24 digits, and each limb is added up in integers: nothing is rounded.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from fractions import Fraction
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from lastbit.formats import scale2

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

PIECE: Final = 24  # digits of a piece, and of a limb
DIGITS: Final = 53  # of a binary64 value
MOST_TERMS: Final = 1 << 15  # that are added in 64 bits at once: 48 digits each, half of a product
CHUNK: Final = 1 << 21  # products that exist at once


def exact_dots(left: Floats, right: Floats | None) -> list[Fraction]:
    """Return the dot product of each row of two matrices, exactly.

    Args:
        left: finite numbers, `[R, K]`.
        right: as many; None: the sum of each row of `left`.
    """
    rows = max(1, CHUNK // max(1, left.shape[1]))
    found: list[Fraction] = []
    for i in range(0, len(left), rows):
        part = None if right is None else right[i : i + rows]
        found += _dots(left[i : i + rows], part)
    return found


def _dots(left: Floats, right: Floats | None) -> list[Fraction]:
    totals = [Fraction(0)] * len(left)
    for start in range(0, left.shape[1], MOST_TERMS):
        stop = start + MOST_TERMS
        part = None if right is None else right[:, start:stop]
        for digits, exponents in _products(left[:, start:stop], part):
            for row, sum_of_limbs in enumerate(_limb_sums(digits, exponents)):
                totals[row] += sum_of_limbs
    return totals


def _products(left: Floats, right: Floats | None) -> Iterator[tuple[Ints, Ints]]:
    """Yield products of pieces: integers of at most 48 digits, and their exponents."""
    for a, ea in _pieces(left):
        if right is None:
            yield a, ea
            continue
        for b, eb in _pieces(right):
            yield a * b, ea + eb


def _pieces(values: Floats) -> Iterator[tuple[Ints, Ints]]:
    """Yield integers of at most 24 digits and exponents that add up to the values."""
    fractions, exponents = np.frexp(values)
    whole = np.ldexp(fractions, DIGITS).astype(np.int64)  # exact
    exponents = exponents.astype(np.int64) - DIGITS
    for shift in (DIGITS - PIECE, DIGITS - 2 * PIECE, 0):
        # The first piece holds the leading digits; a shift to the right rounds down, and what is
        # left is then not negative.
        piece = whole >> shift
        if piece.any():
            yield piece, exponents + shift
        whole = whole - (piece << shift)
        if not whole.any():
            return


def _limb_sums(digits: Ints, exponents: Ints) -> list[Fraction]:
    """Return the sum of each row of integers times powers of two."""
    least = int(exponents.min(initial=0))
    limbs, shifts = np.divmod(exponents - least, PIECE)
    high = digits >> PIECE
    halves: Sequence[tuple[int, Any]] = ((0, digits - (high << PIECE)), (1, high))
    totals = [0] * len(digits)
    for up, half in halves:
        shifted = half << shifts
        for limb in np.unique(limbs).tolist():
            sums = np.where(limbs == limb, shifted, 0).sum(1)
            for row, value in enumerate(sums.tolist()):
                totals[row] += value << (PIECE * (limb + up))
    return [scale2(total, least) for total in totals]
