"""The exact domain: rationals, special values and enclosed reals, in numpy arrays of objects.

This is the reference by which witnesses are judged and replayed. It is slow and always right:
every rounding is `round_exact`, every function of the reals an enclosure refined until the
rounding is decided.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from lastbit.choices import Choice, choice_of, ranked
from lastbit.errors import LastbitError
from lastbit.formats import Exact, Format
from lastbit.graph import Const, Input, View
from lastbit.interpret.views import view_array
from lastbit.machines import Product, product, step, unit_of
from lastbit.reals import FUNCTIONS, Number, compare, named
from lastbit.rounding import Rounding, round_exact
from lastbit.schedule import Fused, Schedule, fold, levels

Objects = NDArray[Any]

ZERO = Fraction(0)


class OpaqueError(LastbitError):
    """A function whose meaning is not modelled cannot be evaluated."""


class AnyOrderError(LastbitError):
    """A sum in any order, or an index among equal elements, has a set of results, not one."""


@dataclass(frozen=True, slots=True)
class Numbers:
    """A tensor of exact numbers.

    Attributes:
        array: `Number` objects.
        sum: where a rounding closed a sum here, the exact sum and the rounding.
        format: the format of which the numbers are values, where one is known.
        factors: the two operands, where this is a product of values of formats.
    """

    array: Objects
    sum: tuple[Objects, Rounding] | None = None
    format: Format | None = None
    factors: tuple[Numbers, Numbers] | None = None


class ExactDomain:
    """The exact domain, on given inputs.

    Args:
        inputs: for each input its values, an array of `Number` objects of the input's shape.

    Attributes:
        ordinary: whether every rounded value so far was finite, no nonzero one below the
            smallest normal number of its format, and no zero negative.
        saturated: whether a finite number was beyond the range of its format, and became the
            largest or the lowest value.
    """

    def __init__(self, inputs: Mapping[str, Objects]) -> None:
        self.inputs = inputs
        self.ordinary = True
        self.saturated = False

    def input(self, node: Input) -> Numbers:
        """Return the given values."""
        return Numbers(self.inputs[node.name], format=node.format)

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
        out = elementwise(FUNCTIONS[fn], *(x.array for x in xs))
        if fn == "neg" and xs[0].sum is not None:
            negated = elementwise(FUNCTIONS[fn], xs[0].sum[0])
            return Numbers(out, (negated, xs[0].sum[1]), xs[0].format)
        if fn in ("neg", "abs") and xs[0].format is not None and xs[0].format.kind == "float":
            return Numbers(out, format=xs[0].format)
        if fn == "mul" and xs[0].format is not None and xs[1].format is not None:
            return Numbers(out, factors=(xs[0], xs[1]))
        return Numbers(out)

    def view(self, node: View, xs: tuple[Numbers, ...]) -> Numbers:
        """Return a view; a closed sum stays one."""
        out = view_array(node, tuple(x.array for x in xs))
        formats = {x.format for x in xs}
        fmt = formats.pop() if len(formats) == 1 else None
        if len(xs) > 1:
            return Numbers(out, format=fmt)
        (x,) = xs
        closed = None if x.sum is None else (view_array(node, (x.sum[0],)), x.sum[1])
        factors = None
        if x.factors is not None:
            a, b = (
                Numbers(
                    view_array(node, (np.broadcast_to(f.array, x.array.shape),)), None, f.format
                )
                for f in x.factors
            )
            factors = a, b
        return Numbers(out, closed, fmt, factors)

    def round(self, x: Numbers, rounding: Rounding) -> Numbers:
        """Round every element."""
        return Numbers(self.rounded(x.array, rounding), format=rounding.format)

    def clamp(self, x: Numbers, rounding: Rounding) -> Numbers:
        """Limit every element to the finite range of the format."""
        low, high = rounding.format.min_finite, rounding.format.max_finite
        clamp = FUNCTIONS["clamp"]
        return Numbers(elementwise(lambda v: clamp(v, low, high), x.array))

    def extreme(self, op: str, x: Numbers, axis: int) -> Numbers:
        """Return the maximum, minimum or choice along an axis; of nothing, its identity.

        Raises:
            AnyOrderError: of equal elements any may be chosen.
        """
        if (choice := choice_of(op)) is not None:
            return Numbers(chosen(choice, x.array, axis))
        identity = float("-inf") if op == "max" else float("inf")
        return Numbers(_along(FUNCTIONS[op], x.array, axis, identity))

    def total(self, x: Numbers, axis: int) -> Numbers:
        """Return the exact sum along an axis."""
        return Numbers(_along(FUNCTIONS["add"], x.array, axis, ZERO))

    def tree(self, x: Numbers, axis: int, schedule: Schedule, rounding: Rounding) -> Numbers:
        """Return the sum along an axis by a schedule."""
        array = x.array
        if any(isinstance(level, Fused) for level in levels(schedule)):
            array = _products(x)
        slabs = np.moveaxis(array, axis, 0)
        algebra = ExactTree(self, slabs, rounding)
        value = fold(schedule, slabs.shape[0], rounding.format.short, algebra)
        return Numbers(np.expand_dims(_objects(value), axis), format=rounding.format)

    def open(self, x: Numbers, rounding: Rounding) -> Numbers:
        """Return the terms of a sum; a closed sum of the same rounding opens again."""
        if x.sum is not None and x.sum[1] == rounding:
            return Numbers(x.sum[0])
        return Numbers(x.array)

    def merge(self, sums: list[Numbers]) -> Numbers:
        """Add exactly."""
        out = sums[0].array
        for s in sums[1:]:
            out = elementwise(FUNCTIONS["add"], out, s.array)
        return Numbers(out)

    def gather(self, x: Numbers, axis: int) -> Numbers:
        """Add exactly along an axis."""
        return self.total(x, axis)

    def close(self, x: Numbers, rounding: Rounding) -> Numbers:
        """Round an exact sum once."""
        value = self.rounded(x.array, rounding)
        return Numbers(value, (x.array, rounding), rounding.format)

    def rounded(self, array: Objects, rounding: Rounding) -> Objects:
        """Return the elements of an array of numbers, each rounded; note what is not ordinary."""
        out = rounded(array, rounding)
        if rounding.overflow == "saturate" and not self.saturated:
            self.saturated = clipped(array, out, rounding)
        if self.ordinary:
            self.ordinary = ordinary(out, rounding.format) and not lost(array, out, rounding)
        return out


class ExactTree:
    """The algebra of a schedule on slabs of exact numbers."""

    def __init__(self, domain: ExactDomain, slabs: Objects, acc: Rounding) -> None:
        self.domain, self.slabs, self.acc = domain, slabs, acc

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
        total = elementwise(FUNCTIONS["add"], _values(a), _values(b))
        return self.domain.rounded(total, self._rounding(fmt))

    def convert(self, value: Objects, fmt: str) -> Objects:
        """Return Round(value)."""
        return self.domain.rounded(_values(value), self._rounding(fmt))

    def fused(self, acc: Objects, terms: list[Objects], machine: str, fmt: str) -> Objects:
        """Return the accumulator after one step of a matrix unit."""
        unit = unit_of(machine)
        return elementwise(lambda c, *t: step(unit, c, t, fmt), acc, *terms)

    def any_order(self, values: list[Objects], fmt: str) -> Objects:
        """Refuse: the result is a set.

        Raises:
            AnyOrderError: always.
        """
        raise AnyOrderError("a sum in any order has a set of results, not one.")


def rounded(array: Objects, rounding: Rounding) -> Objects:
    """Return the elements of an array of numbers, each rounded."""
    return elementwise(lambda v: round_exact(v, rounding), array)


def elementwise(fn: Callable[..., Any], *arrays: Objects) -> Objects:
    """Return a function of numbers applied to arrays of them, which broadcast."""
    shapes = {array.shape for array in arrays}
    if len(shapes) == 1:  # numpy 1.26 broadcasts at most 32 arrays
        shape = shapes.pop()
        values = [fn(*group) for group in zip(*(array.flat for array in arrays), strict=True)]
    else:
        together = np.broadcast(*arrays)
        shape, values = together.shape, [fn(*group) for group in together]
    out = np.empty(len(values), object)
    out[:] = values
    return out.reshape(shape)


def exact_array(values: list[Exact] | tuple[Exact, ...], shape: tuple[int, ...]) -> Objects:
    """Return exact values as an array of objects."""
    out = np.empty(len(values), object)
    out[:] = values
    return out.reshape(shape)


def lost(array: Objects, out: Objects, rounding: Rounding) -> bool:
    """Return whether a nonzero number became a zero of a floating-point format."""
    if rounding.format.kind != "float":
        return False
    pairs = zip(array.flat, out.flat, strict=True)
    return any(not y and (x or not isinstance(x, Fraction)) for x, y in pairs)


def clipped(array: Objects, out: Objects, rounding: Rounding) -> bool:
    """Return whether a number that is rounded lies half an ulp or more beyond the range."""
    fmt = rounding.format
    half = Fraction(2) ** fmt.quantum(fmt.emax) / 2
    low, high = fmt.min_finite, fmt.max_finite
    return any(
        (y == high and x >= high + half) or (y == low and x <= low - half)
        for x, y in zip(array.flat, out.flat, strict=True)
        if isinstance(x, Fraction) and y in (high, low)
    )


def ordinary(array: Objects, fmt: Format) -> bool:
    """Return whether all values are finite, none is a negative zero or below the normal range."""
    return all(isinstance(v, Fraction) and _normal(v, fmt) for v in array.flat)


def _normal(v: Fraction, fmt: Format) -> bool:
    n, d = v.numerator, v.denominator
    surely = n.bit_length() - d.bit_length() > fmt.emin  # spares a comparison of rationals
    return surely or not n or abs(v) >= fmt.min_normal


def chosen(choice: Choice, array: Objects, axis: int) -> Objects:
    """Return the element, or the index of the element, that is chosen along an axis.

    Raises:
        AnyOrderError: of equal elements any may be chosen.
    """
    columns = np.moveaxis(array, axis, -1)
    shape, count = columns.shape[:-1], columns.shape[-1]
    rows = columns.reshape(-1, count)
    values = [_chosen_of(choice, row) for row in rows.tolist()]
    return np.expand_dims(exact_array(values, shape), axis)


def _chosen_of(choice: Choice, row: list[Any]) -> Exact:
    order = ranked(row, compare if choice.ties else _signed, choice.ties or "first")
    index = order[choice.nth - 1]
    if choice.ties is None:
        return cast("Exact", row[index])
    beside = order[max(choice.nth - 2, 0) : choice.nth + 1]
    if choice.ties == "any" and any(_alike(row[i], row[index]) for i in beside if i != index):
        raise AnyOrderError("the index of one of several equal elements is one of a set.")
    return Fraction(index)


def _signed(a: Number, b: Number) -> int:
    """Compare two numbers; -0 is below 0."""
    return compare(a, b) or isinstance(b, float) - isinstance(a, float)


def _alike(a: Number, b: Number) -> bool:
    if a != a or b != b:
        return a != a and b != b
    return compare(a, b) == 0


def _products(x: Numbers) -> Objects:
    """Return the terms of a sum as products, which a matrix unit needs.

    Raises:
        OpaqueError: the terms are no products of values of formats.
    """
    if x.factors is None:
        raise OpaqueError("a step of a matrix unit adds products of two values of formats.")
    a, b = x.factors
    fmt_a, fmt_b = a.format, b.format
    assert fmt_a is not None

    def pair(u: Exact, v: Exact) -> Any:
        return product(u, v, fmt_a, fmt_b)

    return np.broadcast_to(elementwise(pair, a.array, b.array), x.array.shape)


def _values(array: Objects) -> Objects:
    if array.size and isinstance(array.flat[0], Product):
        return elementwise(lambda term: term.value, array)
    return array


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
        for slab in slabs[1:]:
            out = elementwise(fn, out, _objects(slab))
    return np.expand_dims(out, axis)
