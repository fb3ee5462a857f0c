"""Sums by a schedule in the array domain, slab by slab along the reduced axis.

All outputs advance together: a value of the fold is a slab, one number for each output. Terms are
made when the fold asks for them, so the products of a matrix product never exist all at once.

Each addition is exact before it is rounded (`lastbit.sum_array`).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

from lastbit.formats import F32
from lastbit.graph import View
from lastbit.interpret import intervals as iv
from lastbit.interpret.decide import rounded
from lastbit.interpret.folded import ranked
from lastbit.interpret.stepped import stepped_sum
from lastbit.interpret.tensors import (
    Held,
    Mapped,
    Taken,
    Tensor,
    shown,
    viewed,
)
from lastbit.rounding import Rounding
from lastbit.schedule import Fused, Schedule, fold, levels
from lastbit.sum_array import PLAIN_F32, rounded_sum

Array: TypeAlias = NDArray[np.floating[Any]]

STORED: Final = 1 << 19  # terms of a sum that may exist all at once


def scheduled_sum(x: Tensor, axis: int, schedule: Schedule, rounding: Rounding, seed: int) -> Held:
    """Return the sum along an axis by a schedule, rounded at every node.

    Args:
        x: the terms.
        axis: the axis, which stays with size 1.
        schedule: a bound schedule.
        rounding: how the additions of the root's format round.
        seed: chooses the order of a sum in any order.

    Raises:
        ArrayLimitError: the schedule has steps of a matrix unit, and there is too much to do.
        OpaqueError: a matrix unit would add something that is no product.
    """
    shape = (*x.shape[:axis], 1, *x.shape[axis + 1 :])
    if any(isinstance(level, Fused) for level in levels(schedule)):
        array = stepped_sum(x, axis, schedule, rounding)
    else:
        order = (axis, *(i for i in range(len(x.shape)) if i != axis))
        moved = viewed(View("transpose", (shown(x.shape),), order), (x,))
        algebra = _Slabs(_terms(moved), rounding, seed)
        total = fold(schedule, x.shape[axis], rounding.format.short, algebra)
        array = _array(total)
    outer = np.broadcast_to(array, shape[:axis] + shape[axis + 1 :])
    return Held(np.expand_dims(outer, axis).astype(np.float64), rounding.format)


def _array(x: Tensor) -> Array:
    assert isinstance(x, Held)
    return x.array


def _terms(x: Tensor) -> Callable[[int], Tensor]:
    """Return what makes term i: the slab of x at i along its first axis."""
    if isinstance(x, Mapped) and x.size > max(STORED, *(2 * arg.size for arg in x.xs)):
        if x.fn == "mul":
            return _products(x)
        for arg in x.xs:
            arg.whole()
        return lambda i: Taken(x, i)
    whole = x.whole().each(lambda a: np.ascontiguousarray(np.broadcast_to(a, x.shape)))
    if whole.exact:
        array = _narrowed(whole.lo)
        return lambda i: Held(array[i])
    return lambda i: Taken(x, i, _at(whole, i))


def _at(x: iv.Interval, i: int) -> iv.Interval:
    return x.each(lambda array: array[i])


def _narrowed(array: Array) -> Array:
    """Return the array in float32 where that holds all its elements."""
    narrow = array.astype(np.float32)
    return narrow if np.array_equal(narrow, array, equal_nan=True) else array


def _products(x: Mapped) -> Callable[[int], Tensor]:
    """Return what makes the product of slab i of one factor and slab i of the other."""
    factors = [ranked(arg, len(x.shape)).each(np.ascontiguousarray) for arg in x.xs]
    last = [len(factor.lo) - 1 for factor in factors]
    if not (factors[0].exact and factors[1].exact and x.precise):

        def product(i: int) -> Tensor:
            a, b = (_at(f, min(i, end)) for f, end in zip(factors, last, strict=True))
            return Taken(x, i, iv.mul(a, b, x.precise))

        return product
    arrays: list[Array] = [factor.lo for factor in factors]
    if _fit_binary32(x, factors[0].lo, factors[1].lo):
        arrays = [array.astype(np.float32) for array in arrays]
    (a, b), (last_a, last_b) = arrays, last
    return lambda i: Held(a[min(i, last_a)] * b[min(i, last_b)])


def _fit_binary32(x: Mapped, a: iv.Floats, b: iv.Floats) -> bool:
    """Say whether binary32 holds every product of an element of a and one of b."""
    digits = [arg.digits.count for arg in x.xs if arg.digits is not None]
    if len(digits) < 2 or sum(digits) > F32.precision:
        return False
    sizes = [np.abs(array[np.isfinite(array) & (array != 0)]) for array in (a, b)]
    if not (sizes[0].size and sizes[1].size):
        return True
    least = sum(math.frexp(float(size.min()))[1] for size in sizes) - sum(digits)
    most = float(sizes[0].max()) * float(sizes[1].max())
    return least >= F32.quantum(F32.emin) and most < 2.0**F32.emax


class _Slabs:
    """The algebra of a schedule on slabs; what is held is exact, in float32 or float64."""

    def __init__(self, leaf: Callable[[int], Tensor], acc: Rounding, seed: int) -> None:
        self.leaf, self.seed = leaf, seed
        self.roundings = {acc.format.short: acc}

    def _rounding(self, fmt: str) -> Rounding:
        if fmt not in self.roundings:
            self.roundings[fmt] = Rounding.of(fmt)
        return self.roundings[fmt]

    def zero(self, fmt: str) -> Tensor:
        return Held(np.zeros((), np.float32))

    def add(self, a: Tensor, b: Tensor, fmt: str) -> Tensor:
        rounding = self._rounding(fmt)
        if isinstance(a, Held) and isinstance(b, Held):
            total = rounded_sum(a.array, b.array, rounding)
            if total is not None:
                return Held(total)
        if isinstance(a, Held) and rounding == PLAIN_F32:
            near = _sum_with_enclosed(a.array, b.whole())
            if near is not None:
                return Held(near)
        return _kept(rounded(Mapped("add", (a, b)), rounding), rounding)

    def convert(self, value: Tensor, fmt: str) -> Tensor:
        rounding = self._rounding(fmt)
        return _kept(rounded(value, rounding), rounding)

    def fused(self, acc: Tensor, terms: list[Tensor], machine: str, fmt: str) -> Tensor:
        raise AssertionError("sums with steps of a matrix unit are done by the engine")

    def any_order(self, values: list[Tensor], fmt: str) -> Tensor:
        total = self.zero(fmt)
        for i in np.random.Generator(np.random.PCG64(self.seed)).permutation(len(values)):
            total = self.add(total, values[i], fmt)
        return total


def _kept(x: Held, rounding: Rounding) -> Held:
    return Held(x.array.astype(np.float32)) if rounding == PLAIN_F32 else x


def _sum_with_enclosed(a: Array, b: iv.Interval) -> Array | None:
    """Return Round(a + b) in binary32, or None unless enclosures decide every element."""
    if b.unknown is not None:
        return None
    low = np.asarray(iv.below(np.add(a, b.lo, dtype=np.float64))).astype(np.float32)
    high = np.asarray(iv.above(np.add(a, b.hi, dtype=np.float64))).astype(np.float32)
    return low if np.array_equal(low.view(np.uint32), high.view(np.uint32)) else None
