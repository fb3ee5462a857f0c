"""One step of a matrix unit in binary64, for any operands of at most 24 digits.

The steps are those of `lastbit.machines.step`. All is exact: a product has at most 48 digits, and
in binary64 no product of such operands overflows or underflows; multiples of 2^(E - F) are integers
below 2^53 once they are scaled by a power of two. NaN and infinities go through the same sums.
The caller silences numpy's floating-point warnings.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

from lastbit.engine.operands import NO_EXPONENT, Exponents, Floats, power_of_two
from lastbit.formats import F32, Format, format_of
from lastbit.machines import Unit
from lastbit.machines.step import LAST_BITS, MORE_BITS
from lastbit.machines.table import Method
from lastbit.round_array import round_array
from lastbit.rounding import Rounding
from lastbit.sum_array import rounded_sum

Array: TypeAlias = NDArray[np.floating[Any]]
Whole: TypeAlias = NDArray[np.int64]
Step: TypeAlias = Callable[[Unit, Array, Floats, Exponents, Format], Array]

FAR_BELOW: Final = -760  # the exponent of no products: so far below that they cannot count
MOST: Final = 256  # above every exponent that counts; infinities may claim more


def step(unit: Unit, acc: Array, products: Floats, exponents: Exponents, fmt: str) -> Array:
    """Return accumulators after one step.

    Args:
        unit: the matrix unit.
        acc: the accumulators before the step, values of `fmt` in float32.
        products: exact products, `[at most the unit's width, ...]`, which the step may overwrite;
            where the unit flushes subnormal operands, products of flushed ones.
        exponents: the sums of the exponents of their factors, far below all for zeros.
        fmt: the format of the accumulator.
    """
    return _METHODS[unit.method](unit, acc, products, exponents, format_of(fmt))


def _largest(exponents: Exponents) -> Whole:
    largest: Exponents = np.maximum.reduce(exponents, axis=0, initial=2 * NO_EXPONENT)
    return largest.astype(np.int64)


def _exponents(x: Floats, least: int) -> Whole:
    """Return the exponents of numbers, at least `least`."""
    fields = (x.view(np.int64) >> 52) & 0x7FF
    return np.asarray(np.clip(fields - 1023, least, MOST))


def _settle(special: Floats, out: Array) -> Array:
    """Put NaN and infinities where the plain sum of all terms has them."""
    return np.where(np.isfinite(special), out, special).astype(out.dtype)


def _aligned(unit: Unit, acc: Array, products: Floats, exponents: Exponents, fmt: Format) -> Array:
    c = acc.astype(np.float64)
    own = _exponents(c, fmt.emin)
    own[c == 0] = FAR_BELOW
    largest = np.maximum(_largest(exponents), own)
    largest = np.clip(largest, unit.least_exponent(fmt.short), MOST)
    up = power_of_two(unit.fraction_bits - largest)
    np.multiply(products, up, out=products)
    np.trunc(products, out=products)
    total = np.add.reduce(products, axis=0)
    total += np.trunc(c * up)
    total *= power_of_two(largest - unit.fraction_bits)
    if fmt.short == "f16":
        return (round_array(total, Rounding.of(fmt)) + 0.0).astype(np.float32)
    return (_cut(total, unit.result_bits, fmt) + 0.0).astype(np.float32)


def _cut(x: Floats, bits: int, fmt: Format) -> Floats:
    """Return numbers cut toward zero to so many fraction bits."""
    out = (x.view(np.int64) & np.int64(-(1 << (52 - bits)))).view(np.float64)
    small = np.abs(x) < float(fmt.min_normal)
    if small.any():
        quantum = 2.0 ** (fmt.emin - bits)
        out = np.where(small, np.trunc(x / quantum) * quantum, out)
    return out


def _dot(unit: Unit, products: Floats, exponents: Exponents) -> tuple[Floats, Whole]:
    """Return sums of cut products as multiples of 2^(E - F), and E."""
    largest = np.clip(_largest(exponents), FAR_BELOW, MOST)
    terms = products * power_of_two(unit.fraction_bits - largest)
    np.trunc(terms, out=terms)
    return np.add.reduce(terms, axis=0), largest


def _late(unit: Unit, acc: Array, products: Floats, exponents: Exponents, fmt: Format) -> Array:
    c, f = acc.astype(np.float64), unit.fraction_bits
    if unit.method == "late":
        beyond = np.abs(products) >= 2.0 ** (F32.emax + 1)
        if beyond.any():
            products = np.where(beyond, np.copysign(np.inf, products), products)
        dot, largest = _dot(unit, products, exponents)
    else:
        (even, e), (odd, o) = (_dot(unit, products[i::2], exponents[i::2]) for i in (0, 1))
        largest = np.maximum(e, o)
        dot = np.floor(even * power_of_two(e - largest)) + np.floor(odd * power_of_two(o - largest))
    special = np.add.reduce(products, axis=0) + c
    own = _exponents(c, fmt.emin)
    top = np.maximum(largest, own)
    kept = c if unit.method == "late" else np.where(own < top - f - 1, 0.0, c)
    total = np.floor(dot * power_of_two(largest - top + MORE_BITS))
    total += np.floor(kept * power_of_two(f - top)) * 2.0**MORE_BITS
    total *= power_of_two(top - f - MORE_BITS)
    normal = _exponents(total, fmt.emin)
    last = np.floor(total * power_of_two(LAST_BITS - normal)) * power_of_two(normal - LAST_BITS)
    return _settle(special, np.where(total == 0, 0.0, last).astype(np.float32))


def _flushed(unit: Unit, acc: Array, products: Floats, exponents: Exponents, fmt: Format) -> Array:
    terms = [_flush(p.astype(np.float32)) for p in products]
    terms += [np.zeros_like(terms[0])] * (unit.width - len(terms))
    while len(terms) > 1:
        terms = [_flush(a + b) for a, b in zip(terms[::2], terms[1::2], strict=True)]
    start = np.where(np.abs(acc) < np.float32(F32.min_normal), np.float32(0), acc)
    return _flush(start + terms[0])


def _flush(x: Array) -> Array:
    """Return numbers with subnormal ones as zeros of their sign."""
    return np.where(np.abs(x) < np.float32(F32.min_normal), x * np.float32(0), x)


def _plain(unit: Unit, acc: Array, products: Floats, exponents: Exponents, fmt: Format) -> Array:
    rounding = Rounding.of(fmt)
    for p in products:
        term: Array = p if unit.method == "contracted" else rounded(p, rounding)
        acc = added(acc, term, rounding)
    return acc


def rounded(x: Array, rounding: Rounding) -> Array:
    """Return Round(x), in float32 where that holds the format."""
    return carried(round_array(x, rounding), rounding.format)


def added(a: Array, b: Array, rounding: Rounding) -> Array:
    """Return Round(a + b), in float32 where that holds the format."""
    total = rounded_sum(a, b, rounding)
    assert total is not None, "roundings here are to nearest, of at most 51 digits or binary64"
    return carried(total, rounding.format)


def carried(x: Array, fmt: Format) -> Array:
    """Return values of a format in float32 where that holds the format, else in float64."""
    return x.astype(carrier(fmt), copy=False)


def carrier(fmt: Format) -> type[np.float32] | type[np.float64]:
    """Return the type of the arrays that hold values of a format."""
    held = fmt.kind == "float" and fmt.precision <= F32.precision and fmt.emin >= F32.emin
    return np.float32 if held else np.float64


_METHODS: Final[dict[Method, Step]] = {
    "aligned": _aligned,
    "late": _late,
    "late halves": _late,
    "flushed": _flushed,
    "rounded": _plain,
    "contracted": _plain,
}
