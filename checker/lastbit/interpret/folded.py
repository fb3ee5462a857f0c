"""Exact sums, maxima and minima along an axis, as enclosures.

A sum of n numbers computed in binary64 in any order differs from the exact one by at most
n * u / (1 - n * u) times the sum of magnitudes, u = 2^-53 (Higham, Accuracy and Stability of
Numerical Algorithms, 2nd ed., sec. 4.2; for sums of products one more term, sec. 3.1). Where all
terms are multiples of one power of two and their sum stays below 2^53 of it, it is exact.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction
from functools import reduce
from typing import Any, Final

import numpy as np

from lastbit.formats import as_exact
from lastbit.interpret import intervals as iv
from lastbit.interpret.intervals import Floats, Interval, Mask
from lastbit.interpret.tensors import (
    ArrayLimitError,
    Indices,
    Mapped,
    Objects,
    Tensor,
)
from lastbit.reals import FUNCTIONS

ROUNDOFF: Final = 2.0**-53
STORED: Final = 1 << 16  # a product of more elements is not stored to be summed
MOST_TERMS: Final = 1 << 22  # terms of sums that are computed again, exactly


class Folded(Tensor):
    """The exact sum, the maximum or the minimum along an axis, which stays with size 1."""

    def __init__(self, op: str, x: Tensor, axis: int) -> None:
        self.op, self.x, self.axis = op, x, axis
        self.shape = (*x.shape[:axis], 1, *x.shape[axis + 1 :])
        if op != "sum" and x.digits is not None:
            self.digits = x.digits.plain()

    @property
    def args(self) -> tuple[Tensor, ...]:
        """The tensor that is reduced."""
        return (self.x,)

    def _evaluate(self) -> Interval:
        if self.x.shape[self.axis] == 0:
            return iv.exactly(np.full(self.shape, float(_EMPTY[self.op])))
        if self.op != "sum":
            return _extreme(self.x.whole(), self.op, self.axis)
        product = self.x
        if isinstance(product, Mapped) and product.fn == "mul" and product.size > STORED:
            return _sum_of_products(product, self.axis)
        terms = self.x.whole().each(lambda array: np.broadcast_to(array, self.x.shape))
        return _sum(terms, self.axis)

    def exact_at(self, places: Indices) -> Objects:
        """Return exact elements; all terms of those that are not known are added again."""
        whole = self.whole()
        distinct, inverse = np.unique(places, return_inverse=True)
        values = np.broadcast_to(whole.lo, self.shape).ravel()[distinct]
        out = np.array([None, *map(as_exact, values.tolist())], object)[1:]
        again = ~np.broadcast_to(whole.known(), self.shape).ravel()[distinct]
        if again.any():
            out[again] = self._added_again(distinct[again])
        return out[inverse.reshape(places.shape)]

    def _added_again(self, places: Indices) -> list[Any]:
        terms = self.x.shape[self.axis]
        if places.size * terms > MOST_TERMS:
            what = f"{places.size} sums of {terms} terms are not decided by their enclosures"
            raise ArrayLimitError(what, MOST_TERMS // max(terms, 1))
        columns = [index[:, None] for index in np.unravel_index(places, self.shape)]
        columns[self.axis] = np.arange(terms)[None, :]
        flat = np.ravel_multi_index(np.broadcast_arrays(*columns), self.x.shape)
        combine = FUNCTIONS["add" if self.op == "sum" else self.op]
        exact = self.op == "sum"
        return [
            _sum_of_fractions(row)
            if exact and all(type(v) is Fraction for v in row)
            else reduce(combine, row)
            for row in self.x.exact_at(flat)
        ]


_EMPTY: Final[dict[str, Any]] = {"sum": Fraction(0), "max": -math.inf, "min": math.inf}


def _sum_of_fractions(terms: Any) -> Fraction:
    bottom = math.lcm(*(t.denominator for t in terms))
    return Fraction(sum(t.numerator * (bottom // t.denominator) for t in terms), bottom)


def _extreme(x: Interval, op: str, axis: int) -> Interval:
    if op == "min":
        return iv.neg(_extreme(iv.neg(x), "max", axis))
    lo = _largest(x.lo, axis)
    hi = lo if x.hi is x.lo else _largest(x.hi, axis)
    return Interval(lo, hi, _anywhere(x.unknown, axis))


def _anywhere(mask: Mask | None, axis: int) -> Mask | None:
    """Return where the mask holds somewhere along an axis."""
    return None if mask is None else np.asarray(mask.any(axis=axis, keepdims=True))


def _largest(x: Floats, axis: int) -> Floats:
    """Return maxima; among zeros +0 is the largest."""
    out = np.asarray(np.max(x, axis=axis, keepdims=True))
    zero = out == 0
    if zero.any():
        positive = ((x == 0) & ~np.signbit(x)).any(axis=axis, keepdims=True)
        out = np.where(zero, np.where(positive, 0.0, -0.0), out)
    return out


def _sum(x: Interval, axis: int) -> Interval:
    lo, spread = _sum_of(x.lo, axis)
    special = ~np.isfinite(x.lo)
    certain = special.any(axis=axis, keepdims=True)  # an infinite or NaN term is an exact one
    if x.exact and (spread is None or certain.all()):
        negative = (x.lo == 0) & np.signbit(x.lo)
        return iv.exactly(_signed(lo, lambda: negative.all(axis=axis, keepdims=True)))
    unknown = _anywhere(x.unknown, axis)
    hi, other = (lo, spread) if x.hi is x.lo else _sum_of(x.hi, axis)
    low = iv.below(lo if spread is None else lo - spread)
    high = iv.above(hi if other is None else hi + other)
    low, high = np.where(certain, lo, low), np.where(certain, lo, high)
    astray = ~certain & ~(np.isfinite(low) & np.isfinite(high))
    return Interval(low, high, iv.either(unknown, astray if astray.any() else None))


def _signed(out: Floats, negative: Callable[[], Any]) -> Floats:
    """Return sums with the sign of their zeros: -0 where `negative` says that all terms are."""
    zero = out == 0
    return np.where(zero, np.where(negative(), -0.0, 0.0), out) if zero.any() else out


def _sum_of(x: Floats, axis: int) -> tuple[Floats, Floats | None]:
    """Return sums, and how far from the exact ones they may be; None where they are exact."""
    total = np.sum(x, axis=axis, keepdims=True)
    terms = x.shape[axis]
    least, most = _grid(x)
    if most * terms <= 2.0 ** min(53 + least, 1000):
        return total, None
    magnitudes = np.sum(np.abs(x), axis=axis, keepdims=True)
    return total, magnitudes * _gamma(terms)


def _gamma(terms: int) -> float:
    """Return n u / (1 - n u), and a little more for the computation of the bound itself."""
    return 1.01 * terms * ROUNDOFF / (1 - terms * ROUNDOFF)


def _grid(x: Floats) -> tuple[int, float]:
    """Return e and m: all finite elements are multiples of 2^e, of magnitude at most m."""
    values = x[np.isfinite(x) & (x != 0)]
    if not values.size:
        return 0, 0.0
    words = values.view(np.int64)
    exponents = (words >> 52) & 0x7FF
    digits = (words & ((1 << 52) - 1)) | np.where(exponents > 0, np.int64(1 << 52), 0)
    lowest = np.frexp((digits & -digits).astype(np.float64))[1] - 1
    least = int((np.maximum(exponents, 1) - 1075 + lowest).min())
    return least, float(np.abs(values).max())


def _sum_of_products(x: Mapped, axis: int) -> Interval:
    terms = x.shape[axis]
    a, b = (ranked(arg, len(x.shape)) for arg in x.xs)
    if a.exact and b.exact:
        (least_a, most_a), (least_b, most_b) = _grid(a.lo), _grid(b.lo)
        finite = np.isfinite(a.lo).all() and np.isfinite(b.lo).all()
        if finite and terms * most_a * most_b <= 2.0 ** min(53 + least_a + least_b, 1000):
            total = contract(a.lo, b.lo, axis)
            return iv.exactly(_signed(total, lambda: _all_negative(a.lo, b.lo, axis)))
    (middle_a, radius_a), (middle_b, radius_b) = _ball(a), _ball(b)
    size_a, size_b = np.abs(middle_a), np.abs(middle_b)
    total = contract(middle_a, middle_b, axis)
    spread = contract(size_a, size_b, axis) * _gamma(terms + 2)
    if radius_b is not None:
        spread = spread + contract(size_a, radius_b, axis)
    if radius_a is not None:
        spread = spread + contract(radius_a, size_b, axis)
    if radius_a is not None and radius_b is not None:
        spread = spread + contract(radius_a, radius_b, axis)
    spread = spread * (1 + 8 * _gamma(terms + 2))
    lo, hi = iv.below(total - spread), iv.above(total + spread)
    unknown = ~(np.isfinite(lo) & np.isfinite(hi))
    for mask, arg in ((a.unknown, b.lo), (b.unknown, a.lo)):
        if mask is not None:
            unknown |= contract(mask.astype(np.float64), np.ones(arg.shape), axis) > 0
    return Interval(lo, hi, unknown if unknown.any() else None)


def _all_negative(a: Floats, b: Floats, axis: int) -> Any:
    """Return where every product is a negative zero."""
    signs = [np.signbit(x).astype(np.float64) for x in (a, b)]
    count = contract(signs[0], 1 - signs[1], axis) + contract(1 - signs[0], signs[1], axis)
    nonzero = contract((a != 0).astype(np.float64), (b != 0).astype(np.float64), axis)
    terms = np.broadcast_shapes(a.shape, b.shape)[axis]
    return (count == terms) & (nonzero == 0)


def _ball(x: Interval) -> tuple[Floats, Floats | None]:
    """Return middles and radii; None for radii of zero."""
    if x.hi is x.lo:
        return x.lo, None
    middle = np.where(x.lo == x.hi, x.lo, iv.middle(x))
    radius = np.maximum(x.hi - middle, middle - x.lo)
    return middle, np.where(x.lo == x.hi, 0.0, iv.above(radius))


def ranked(x: Tensor, rank: int) -> Interval:
    """Return enclosures of all elements, in arrays of so many axes."""
    shape = (1,) * (rank - len(x.shape)) + x.shape
    return x.whole().each(lambda array: np.broadcast_to(array, x.shape).reshape(shape))


def contract(a: Floats, b: Floats, axis: int) -> Floats:
    """Return the sum of a * b along an axis, which stays with size 1; nothing larger is stored.

    The order of the additions is that of a matrix product; callers bound the error of any order.
    """
    shape = np.broadcast_shapes(a.shape, b.shape)
    out_shape = (*shape[:axis], 1, *shape[axis + 1 :])
    if shape[axis] == 0:
        return np.zeros(out_shape)
    labels = range(len(shape))
    kept = [i for i in labels if i != axis and shape[i] != 1]
    own = [[i for i in kept if x.shape[i] != 1] for x in (a, b)]
    if set(own[0]) & set(own[1]) or a.shape[axis] != b.shape[axis]:
        sides: list[Any] = []
        for x in (a, b):
            axes = [i for i in labels if x.shape[i] != 1]
            sides += [x.reshape([x.shape[i] for i in axes]), axes]
        return np.asarray(np.einsum(*sides, kept, optimize=True)).reshape(out_shape)
    left, right = (np.moveaxis(x, axis, -1).reshape(-1, shape[axis]) for x in (a, b))
    product = (left @ right.T).reshape([shape[i] for i in (*own[0], *own[1])])
    order = np.argsort([*own[0], *own[1]])
    return np.asarray(product.transpose(order)).reshape(out_shape)
