"""Sums of two arrays, rounded once: exact before they are rounded.

For binary32 with both operands in binary32 an addition is the processor's own; other exact operands
are added in binary64, and the error of that addition (2Sum) turns the result into the exact sum
rounded to odd, from which every rounding to at most 51 digits is right (Boldo and Melquiond, IEEE
Trans. Comput. 57(4), 2008).
"""

from __future__ import annotations

from typing import Any, Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

from lastbit.formats import F32, F64
from lastbit.round_array import round_array
from lastbit.rounding import Mode, Rounding

Array: TypeAlias = NDArray[np.floating[Any]]
Floats: TypeAlias = NDArray[np.float64]

PLAIN_F32: Final = Rounding.of(F32)
PLAIN_F64: Final = Rounding.of(F64)
HALF_ULP: Final = np.int64(1 << 28)  # the digits of binary64 below binary32: a tie
REST: Final = np.int64((1 << 29) - 1)


def rounded_sum(a: Array, b: Array, rounding: Rounding) -> Array | None:
    """Return Round(a + b) for float32 or float64 arrays, or None where these ways do not apply."""
    if rounding == PLAIN_F32:
        if a.dtype == b.dtype == np.float32:
            return np.asarray(a + b)
        total = np.asarray(np.add(a, b, dtype=np.float64))
        tie = (total.view(np.int64) & REST) == HALF_ULP
        if not (tie.any() or (np.abs(total) < float(F32.min_normal)).any()):
            return total.astype(np.float32)
        return round_array(sum_to_odd(a, b), rounding).astype(np.float32)
    if rounding == PLAIN_F64:
        return np.asarray(np.add(a, b, dtype=np.float64))
    if rounding.mode is Mode.STOCHASTIC or rounding.format.precision > 51:
        return None
    return round_array(sum_to_odd(a, b), rounding)


def sum_to_odd(a: Array, b: Array) -> Floats:
    """Return a + b, rounded to odd: an inexact sum gets the neighbour whose last digit is odd."""
    x, y = np.asarray(a, np.float64), np.asarray(b, np.float64)
    total = np.asarray(x + y)
    beyond = np.isinf(total) & np.isfinite(x) & np.isfinite(y)
    if beyond.any():
        total = np.where(beyond, np.copysign(np.finfo(np.float64).max, total), total)
    error = np.where(beyond, 0.0, sum_error(x, y, total))
    inexact = np.abs(error) > 0
    if not inexact.any():
        return total
    inward = inexact & ((error < 0) != (total < 0))
    words = (total.view(np.int64) - inward) | inexact
    return np.asarray(words.view(np.float64))


def sum_error(a: Floats, b: Floats, s: Floats) -> Floats:
    """Return a + b - s for s = fl(a + b): exact, unless something is infinite (2Sum)."""
    t = s - a
    return (a - (s - t)) + (b - t)
