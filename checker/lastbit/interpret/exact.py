"""The exact domain: rationals, special values and enclosed reals, in numpy arrays of objects.

This is the reference by which witnesses are judged and replayed. It is slow and always right:
every rounding is `round_exact`, every function of the reals an enclosure refined until the
rounding is decided.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lastbit.errors import LastbitError
from lastbit.formats import Exact
from lastbit.graph import Const, Input, View
from lastbit.interpret.views import view_array
from lastbit.machines import exact_step
from lastbit.reals import FUNCTIONS, named
from lastbit.rounding import Rounding, round_exact
from lastbit.schedule import Schedule, fold

Objects = NDArray[Any]

ZERO = Fraction(0)


class OpaqueError(LastbitError):
    """A function whose meaning is not modelled cannot be evaluated."""


class AnyOrderError(LastbitError):
    """A sum in any order has a set of results, not one."""


@dataclass(frozen=True, slots=True)
class Numbers:
    """A tensor of exact numbers.

    Attributes:
        array: `Number` objects.
        sum: where a rounding closed a sum here, the exact sum and the rounding.
    """

    array: Objects
    sum: tuple[Objects, Rounding] | None = None


class ExactDomain:
    """The exact domain, on given inputs.

    Args:
        inputs: for each input its values, an array of `Number` objects of the input's shape.
    """

    def __init__(self, inputs: Mapping[str, Objects]) -> None:
        self.inputs = inputs

    def input(self, node: Input) -> Numbers:
        """Return the given values."""
        return Numbers(self.inputs[node.name])

    def const(self, node: Const) -> Numbers:
        """Return a constant."""
        value = named(node.value) if isinstance(node.value, str) else node.value
        return Numbers(_scalar(value))

    def map(self, fn: str, xs: tuple[Numbers, ...]) -> Numbers:
        """Apply an elementwise function exactly.

        Raises:
            OpaqueError: the function has no modelled meaning.
        """
        if fn not in FUNCTIONS:
            raise OpaqueError(f"the function {fn!r} is opaque: it has no exact value.")
        apply = np.frompyfunc(FUNCTIONS[fn], len(xs), 1)
        out = _objects(apply(*(x.array for x in xs)))
        if fn == "neg" and xs[0].sum is not None:
            return Numbers(out, (_objects(apply(xs[0].sum[0])), xs[0].sum[1]))
        return Numbers(out)

    def view(self, node: View, xs: tuple[Numbers, ...]) -> Numbers:
        """Return a view; a closed sum stays one."""
        out = view_array(node, tuple(x.array for x in xs))
        if len(xs) == 1 and xs[0].sum is not None:
            return Numbers(out, (view_array(node, (xs[0].sum[0],)), xs[0].sum[1]))
        return Numbers(out)

    def round(self, x: Numbers, rounding: Rounding) -> Numbers:
        """Round every element."""
        return Numbers(rounded(x.array, rounding))

    def clamp(self, x: Numbers, rounding: Rounding) -> Numbers:
        """Limit every element to the finite range of the format."""
        low, high = rounding.format.min_finite, rounding.format.max_finite
        clamp = FUNCTIONS["clamp"]
        return Numbers(_objects(np.frompyfunc(lambda v: clamp(v, low, high), 1, 1)(x.array)))

    def extreme(self, op: str, x: Numbers, axis: int) -> Numbers:
        """Return the maximum or minimum along an axis; of nothing, its identity."""
        identity = float("-inf") if op == "max" else float("inf")
        return Numbers(_along(FUNCTIONS[op], x.array, axis, identity))

    def total(self, x: Numbers, axis: int) -> Numbers:
        """Return the exact sum along an axis."""
        return Numbers(_along(FUNCTIONS["add"], x.array, axis, ZERO))

    def tree(self, x: Numbers, axis: int, schedule: Schedule, rounding: Rounding) -> Numbers:
        """Return the sum along an axis by a schedule."""
        slabs = np.moveaxis(x.array, axis, 0)
        algebra = ExactTree(slabs, rounding)
        value = fold(schedule, slabs.shape[0], rounding.format.short, algebra)
        return Numbers(np.expand_dims(_objects(value), axis))

    def open(self, x: Numbers, rounding: Rounding) -> Numbers:
        """Return the terms of a sum; a closed sum of the same rounding opens again."""
        if x.sum is not None and x.sum[1] == rounding:
            return Numbers(x.sum[0])
        return Numbers(x.array)

    def merge(self, sums: list[Numbers]) -> Numbers:
        """Add exactly."""
        out = sums[0].array
        for s in sums[1:]:
            out = _add(out, s.array)
        return Numbers(out)

    def gather(self, x: Numbers, axis: int) -> Numbers:
        """Add exactly along an axis."""
        return self.total(x, axis)

    def close(self, x: Numbers, rounding: Rounding) -> Numbers:
        """Round an exact sum once."""
        return Numbers(rounded(x.array, rounding), (x.array, rounding))


class ExactTree:
    """The algebra of a schedule on slabs of exact numbers."""

    def __init__(self, slabs: Objects, acc: Rounding) -> None:
        self.slabs, self.acc = slabs, acc

    def _rounding(self, fmt: str) -> Rounding:
        return self.acc if fmt == self.acc.format.short else Rounding.of(fmt)

    def zero(self, fmt: str) -> Objects:
        """Return zeros."""
        return np.full(self.slabs.shape[1:], ZERO, object)

    def leaf(self, i: int) -> Objects:
        """Return slab i."""
        return _objects(self.slabs[i])

    def add(self, a: Objects, b: Objects, fmt: str) -> Objects:
        """Return Round(a + b)."""
        return rounded(_add(a, b), self._rounding(fmt))

    def convert(self, value: Objects, fmt: str) -> Objects:
        """Return Round(value)."""
        return rounded(value, self._rounding(fmt))

    def fused(self, acc: Objects, terms: list[Objects], machine: str, fmt: str) -> Objects:
        """Return the accumulator after one step of a matrix unit."""
        step = np.frompyfunc(lambda c, *t: exact_step(machine, c, t, fmt), 1 + len(terms), 1)
        return _objects(step(acc, *terms))

    def any_order(self, values: list[Objects], fmt: str) -> Objects:
        """Refuse: the result is a set.

        Raises:
            AnyOrderError: always.
        """
        raise AnyOrderError("a sum in any order has a set of results, not one.")


def rounded(array: Objects, rounding: Rounding) -> Objects:
    """Return the elements of an array of numbers, each rounded."""
    return _objects(np.frompyfunc(lambda v: round_exact(v, rounding), 1, 1)(array))


def exact_array(values: list[Exact] | tuple[Exact, ...], shape: tuple[int, ...]) -> Objects:
    """Return exact values as an array of objects."""
    out = np.empty(len(values), object)
    out[:] = values
    return out.reshape(shape)


_add = np.frompyfunc(FUNCTIONS["add"], 2, 1)


def _objects(array: Any) -> Objects:
    return array if isinstance(array, np.ndarray) else _scalar(array)


def _scalar(value: Any) -> Objects:
    out = np.empty((), object)
    out[()] = value
    return out


def _along(fn: Any, array: Objects, axis: int, identity: Any) -> Objects:
    shape = array.shape
    slabs = np.moveaxis(array, axis, 0)
    if shape[axis] == 0:
        out = np.full(slabs.shape[1:], identity, object)
    else:
        out = _objects(slabs[0])
        combine = np.frompyfunc(fn, 2, 1)
        for slab in slabs[1:]:
            out = _objects(combine(out, slab))
    return np.expand_dims(out, axis)
