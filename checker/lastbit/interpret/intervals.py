"""Enclosures of real numbers in float64 arrays, and arithmetic on them.

What stands inside a statement is exact, so an element is either known exactly (both ends of its
enclosure are the same number) or lies between two binary64 numbers. Every operation rounds outward
and keeps exact what is exact: the rounding errors of a sum, a product, a quotient and a root are
computed without error (Muller et al., Handbook of Floating-Point Arithmetic, 2nd ed., sec. 4.3,
4.4 and 4.7; interval arithmetic: Moore, Kearfott and Cloud, Introduction to Interval Analysis).

The caller silences numpy's floating-point warnings.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import reduce
from typing import Any, Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

from lastbit.formats import F64
from lastbit.reals import Number, Real
from lastbit.rounding import Mode, Rounding, round_exact
from lastbit.sum_array import sum_error

Floats: TypeAlias = NDArray[np.float64]
Mask: TypeAlias = NDArray[np.bool_]

STEP: Final = 2.0**-52  # at least one ulp of binary64, relatively
TINY: Final = 2.0**-1022  # at least one ulp where that is not
SAFE: Final = 2.0**-900  # products above have an error that binary64 holds


@dataclass(frozen=True, slots=True)
class Interval:
    """An enclosure of every element of a tensor.

    Attributes:
        lo: the lower ends. An element whose ends are equal is known exactly, the sign of a zero
            included; only such an element may be infinite or NaN.
        hi: the upper ends; the same array as `lo` where every element is known exactly.
        unknown: where nothing is known, and the ends mean nothing; None: nowhere.
    """

    lo: Floats
    hi: Floats
    unknown: Mask | None = None

    @property
    def exact(self) -> bool:
        """Say whether every element is known exactly, as far as can be told at once."""
        return self.lo is self.hi and self.unknown is None

    def known(self) -> Mask:
        """Return where elements are known exactly."""
        alike: Mask = self.lo.view(np.uint64) == self.hi.view(np.uint64)
        alike = alike | (np.isnan(self.lo) & np.isnan(self.hi))
        return alike if self.unknown is None else alike & ~self.unknown

    def each(self, change: Any) -> Interval:
        """Return the enclosure with its arrays selected or moved by a function."""
        lo = change(self.lo)
        hi = lo if self.hi is self.lo else change(self.hi)
        return Interval(lo, hi, None if self.unknown is None else change(self.unknown))


def exactly(values: Any) -> Interval:
    """Return numbers that are known exactly."""
    array: Floats = np.asarray(values, np.float64)
    return Interval(array, array)


def of_number(value: Number) -> Interval:
    """Return an enclosure of one number, of no dimension."""
    if isinstance(value, float):
        return exactly(value)
    low, high = value.enclose(128) if isinstance(value, Real) else (value, value)
    ends = round_exact(low, _DOWN), round_exact(high, _UP)
    if ends[0] == ends[1]:
        return exactly(float(ends[0]))
    lo, hi = (np.array(float(end)) for end in ends)
    beyond = not (np.isfinite(lo) and np.isfinite(hi))
    return Interval(lo, hi, np.array(True) if beyond else None)


_DOWN: Final = Rounding.of(F64, Mode.DOWN)
_UP: Final = Rounding.of(F64, Mode.UP)


def either(*masks: Mask | None) -> Mask | None:
    """Return where one of the masks holds."""
    given = [mask for mask in masks if mask is not None]
    return reduce(np.logical_or, given) if given else None


def below(x: Floats, factor: float = STEP) -> Floats:
    """Return numbers below, by one ulp or the given relative distance at least."""
    return x - (np.abs(x) * factor + TINY)


def above(x: Floats, factor: float = STEP) -> Floats:
    """Return numbers above, by one ulp or the given relative distance at least."""
    return x + (np.abs(x) * factor + TINY)


def middle(x: Interval) -> Floats:
    """Return a number between the ends of each enclosure."""
    return x.lo if x.hi is x.lo else 0.5 * x.lo + 0.5 * x.hi


def product_error(a: Floats, b: Floats, p: Floats) -> Floats:
    """Return a * b - p for p = fl(a * b): exact for |p| >= SAFE, NaN for operands too large."""
    c, d = a * _SPLIT, b * _SPLIT
    a1, b1 = c - (c - a), d - (d - b)
    a2, b2 = a - a1, b - b1
    return a2 * b2 - (((p - a1 * b1) - a2 * b1) - a1 * b2)


_SPLIT: Final = 2.0**27 + 1


def neg(x: Interval) -> Interval:
    """Return -x."""
    if x.exact:
        return exactly(-x.lo)
    return Interval(-x.hi, -x.lo, x.unknown)


def add(a: Interval, b: Interval) -> Interval:
    """Return a + b."""
    lo = a.lo + b.lo
    error = sum_error(a.lo, b.lo, lo)
    if a.exact and b.exact:
        if not (np.abs(error) > 0).any():
            return _settled(lo, lo, a, b)
        down, up = np.where(error < 0, below(lo), lo), np.where(error > 0, above(lo), lo)
        return _settled(down, up, a, b)
    hi = a.hi + b.hi
    up = np.where(sum_error(a.hi, b.hi, hi) > 0, above(hi), hi)
    return _settled(np.where(error < 0, below(lo), lo), up, a, b)


def sub(a: Interval, b: Interval) -> Interval:
    """Return a - b."""
    return add(a, neg(b))


def mul(a: Interval, b: Interval, exact: bool = False) -> Interval:
    """Return a * b; `exact` promises that binary64 holds the products of known numbers."""
    if not (a.exact and b.exact):
        return _spanned(np.multiply, a, b)
    p = a.lo * b.lo
    if exact:
        return exactly(p)
    error = product_error(a.lo, b.lo, p)
    doubt = np.isnan(error) & np.isfinite(p)
    small = np.abs(p) < SAFE
    if small.any():
        doubt |= small & (a.lo != 0) & (b.lo != 0)
    return _directed(p, (error < 0) | doubt, (error > 0) | doubt, a, b)


def div(a: Interval, b: Interval) -> Interval:
    """Return a / b; a divisor that may be zero, and may be not, leaves the quotient unknown."""
    if not (a.exact and b.exact):
        out = _spanned(np.divide, a, b)
        around = (b.lo <= 0) & (b.hi >= 0) & (b.lo != b.hi)
        unknown = either(out.unknown, around if around.any() else None)
        return Interval(out.lo, out.hi, unknown)
    q = np.asarray(a.lo / b.lo)
    p = q * b.lo
    rest = (a.lo - p) - product_error(q, b.lo, p)  # a - q * b, without error
    doubt = ~np.isfinite(rest) & np.isfinite(q)
    small = (np.abs(p) < SAFE) | (np.abs(q) < SAFE)
    if small.any():
        doubt |= small & (a.lo != 0)
    doubt &= np.isfinite(b.lo)  # a finite number over an infinite one is an exact zero
    rest = np.where(b.lo < 0, -rest, rest)
    return _directed(q, (rest < 0) | doubt, (rest > 0) | doubt, a, b, pole=True)


def sqrt(x: Interval) -> Interval:
    """Return the square root; of a negative number, NaN."""
    lo = np.sqrt(x.lo)
    if x.exact:
        square = lo * lo
        rest = (x.lo - square) - product_error(lo, lo, square)
        doubt = (x.lo < SAFE) & (x.lo > 0)
        return _directed(lo, (rest < 0) | doubt, (rest > 0) | doubt, x, pole=True)
    hi = np.sqrt(x.hi)
    known = x.known()
    keep = known & ((lo == 0) | ~np.isfinite(lo))
    astray = ~known & (x.lo < 0)
    unknown = either(x.unknown, astray if astray.any() else None)
    return Interval(np.where(keep, lo, below(lo)), np.where(keep, hi, above(hi)), unknown)


def absolute(x: Interval) -> Interval:
    """Return |x|."""
    if x.exact:
        return exactly(np.abs(x.lo))
    lo, hi = np.abs(x.lo), np.abs(x.hi)
    around = (x.lo < 0) & (x.hi > 0)
    return Interval(np.where(around, 0.0, np.minimum(lo, hi)), np.maximum(lo, hi), x.unknown)


def maximum(a: Interval, b: Interval) -> Interval:
    """Return the larger, +0 above -0; NaN if one is."""
    lo = _larger(a.lo, b.lo)
    hi = lo if a.exact and b.exact else _larger(a.hi, b.hi)
    return Interval(lo, hi, _spread(either(a.unknown, b.unknown), lo))


def minimum(a: Interval, b: Interval) -> Interval:
    """Return the smaller, -0 below +0; NaN if one is."""
    return neg(maximum(neg(a), neg(b)))


def compare(ufunc: np.ufunc, a: Interval, b: Interval) -> Interval:
    """Return 1 where less, less_equal or equal holds for certain, 0 where it does not; else open.

    NaN compares false.
    """
    nan = np.isnan(a.lo) | np.isnan(b.lo)
    if a.exact and b.exact:
        return exactly(ufunc(a.lo, b.lo))
    if ufunc is np.equal:
        holds = a.known() & b.known() & (a.lo == b.lo)
        fails = (a.hi < b.lo) | (b.hi < a.lo) | nan
    elif ufunc is np.less:
        holds, fails = a.hi < b.lo, (a.lo >= b.hi) | nan
    else:
        holds, fails = a.hi <= b.lo, (a.lo > b.hi) | nan
    truth = np.asarray(holds, np.float64)
    open_ = ~(holds | fails)
    unknown = either(a.unknown, b.unknown, open_ if open_.any() else None)
    return Interval(truth, truth, _spread(unknown, truth))


def select(condition: Interval, a: Interval, b: Interval) -> Interval:
    """Return a where the condition is not 0 (NaN is not), else b."""
    chosen = condition.lo != 0
    unknown = either(condition.unknown, a.unknown, b.unknown)
    if not condition.exact:
        around = (condition.lo <= 0) & (condition.hi >= 0) & ~condition.known()
        unknown = either(unknown, around if around.any() else None)
    lo = np.where(chosen, a.lo, b.lo)
    hi = lo if a.exact and b.exact else np.where(chosen, a.hi, b.hi)
    return Interval(lo, hi, _spread(unknown, lo))


def stepwise(fn: Any, x: Interval) -> Interval:
    """Return a function that is constant but for jumps, such as floor."""
    lo = np.asarray(fn(x.lo))
    if x.exact:
        return exactly(lo)
    hi = np.asarray(fn(x.hi))
    jump = ~((lo.view(np.uint64) == hi.view(np.uint64)) | (np.isnan(lo) & np.isnan(hi)))
    return Interval(lo, lo, either(x.unknown, jump if jump.any() else None))


def _larger(a: Floats, b: Floats) -> Floats:
    out = np.asarray(np.maximum(a, b))
    zero = out == 0
    if zero.any():
        out = np.where(zero & (a == b), a + b, out)  # -0 where both are
    return out


def _spread(mask: Mask | None, like: Floats) -> Mask | None:
    return None if mask is None else np.broadcast_to(mask, like.shape)


def _directed(value: Floats, down: Mask, up: Mask, *args: Interval, pole: bool = False) -> Interval:
    """Return an enclosure of true values below `value` at `down` and above it at `up`."""
    if not (down.any() or up.any()):
        return _settled(value, value, *args, pole=pole)
    lo, hi = np.where(down, below(value), value), np.where(up, above(value), value)
    return _settled(lo, hi, *args, pole=pole)


def _spanned(ufunc: np.ufunc, a: Interval, b: Interval) -> Interval:
    """Return products or quotients of enclosures."""
    firsts = [a.lo] if a.exact else [a.lo, a.hi]
    seconds = [b.lo] if b.exact else [b.lo, b.hi]
    ends = [np.asarray(ufunc(x, y)) for x in firsts for y in seconds]
    lo, hi = reduce(np.minimum, ends), reduce(np.maximum, ends)
    keep = ~(np.isfinite(lo) & np.isfinite(hi))
    unknown = None
    zero = (lo == 0) & (hi == 0)
    if zero.any():
        settled = (a.lo == 0) & (a.hi == 0)
        if ufunc is np.multiply:
            settled = settled | ((b.lo == 0) & (b.hi == 0))
        else:
            settled = settled | (np.isinf(b.lo) & (b.lo == b.hi))
        signs = [np.signbit(end) for end in ends]
        mixed = reduce(np.logical_or, signs) & ~reduce(np.logical_and, signs)
        keep |= zero & settled
        unknown = zero & settled & mixed
    lo, hi = np.where(keep, lo, below(lo)), np.where(keep, hi, above(hi))
    return _settled(lo, hi, a, b, unknown=unknown, pole=ufunc is np.divide)


def _settled(
    lo: Floats, hi: Floats, *args: Interval, unknown: Mask | None = None, pole: bool = False
) -> Interval:
    """Return an enclosure; a non-finite end that is not certain makes the element unknown.

    Args:
        lo: the lower ends.
        hi: the upper ends.
        args: what the elements were computed from.
        unknown: where nothing is known besides.
        pole: whether exact finite arguments may give an exact infinity, or NaN.
    """
    exact = hi is lo
    lo = np.asarray(lo)
    hi = lo if exact else np.asarray(hi)
    unknown = either(unknown, *(x.unknown for x in args))
    finite = np.isfinite(lo) if exact else np.isfinite(lo) & np.isfinite(hi)
    if not finite.all():
        same = (lo == hi) | (np.isnan(lo) & np.isnan(hi))
        known = _all(x.known() for x in args)
        nan = _any(np.isnan(x.lo) for x in args)
        infinite = _any(np.isinf(x.lo) for x in args)
        certain = same & (nan | (infinite & (known | ~np.isnan(lo))) | (known & pole))
        astray = ~finite & ~certain
        unknown = either(unknown, astray if astray.any() else None)
    return Interval(lo, hi, _spread(unknown, lo))


def _all(masks: Iterable[Mask]) -> Mask:
    return reduce(np.logical_and, masks)


def _any(masks: Iterable[Mask]) -> Mask:
    return reduce(np.logical_or, masks)
