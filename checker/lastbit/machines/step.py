"""One step of a matrix unit, in exact rationals: the oracle.

A product is the exact product of the significands with exponent e_a + e_b; it is not normalised. A
subnormal operand keeps the smallest exponent of its format. The result of a step is the accumulator
of the next. How a step adds depends on the unit's method:

`aligned` (NVIDIA): the accumulator joins the products with its own exponent, and a zero counts with
a floor exponent. With E the largest exponent of the terms, each term is cut toward zero to a
multiple of 2^(E - F). The sum is exact; it is cut toward zero to a binary32 result, or rounded to
the nearest binary16. A zero result is +0. NaN, inf * 0 and inf - inf give NaN; overflow gives inf.

`late` (AMD CDNA3): only products are aligned and cut so; a product beyond binary32 is infinite.
With E the largest exponent of their sum and the accumulator, the sum is rounded down to a multiple
of 2^(E - F - 8), the accumulator to one of 2^(E - F); their sum is rounded down to 31 fraction bits
and then to the nearest binary32. `late halves` (CDNA3, 8-bit operands): the products at even and at
odd places are aligned apart and rounded down to the larger of the two units; an accumulator whose
exponent is below E - F - 1 counts as zero.

`flushed` (AMD CDNA2): subnormal operands and accumulators are zeros; products and sums are rounded
to binary32, with subnormal results flushed: c + (p0 + p1), or c + ((p0 + p1) + (p2 + p3)).

`rounded` and `contracted` (IEEE 754): one product, rounded to the accumulator's format before it is
added, or not.

Sources: `lastbit.machines.table`. Bound of an aligned step: (L + 1) * 2^(E - F) plus one ulp of the
result.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Final

from lastbit.errors import LastbitError
from lastbit.formats import (
    F32,
    NEGATIVE_ZERO,
    ZERO,
    Exact,
    Format,
    encode,
    floor_log2,
    format_of,
    scale2,
)
from lastbit.machines.table import Method, Unit
from lastbit.rounding import Rounding, round_exact

MORE_BITS: Final = 8  # fraction bits of a late sum beyond F
LAST_BITS: Final = 31  # fraction bits to which the whole is rounded down


class StepError(LastbitError):
    """A step that a matrix unit does not do, or that is not modelled.

    Attributes:
        unit: the matrix unit.
        reason: why there is no result.
    """

    def __init__(self, unit: Unit, reason: str) -> None:
        self.unit, self.reason = unit, reason
        super().__init__(f"matrix unit `{unit}`: {reason}.")


@dataclass(frozen=True, slots=True)
class Product:
    """An exact product of two operands.

    Attributes:
        value: its value.
        exponent: e_a + e_b; the product of the significands may lie in [1, 4), or below 1.
        flushed: its value where subnormal operands count as zeros; None where none is subnormal.
    """

    value: Exact
    exponent: int
    flushed: Exact | None = field(default=None, compare=False)


def product(a: Exact, b: Exact, fmt_a: Format, fmt_b: Format | None = None) -> Product:
    """Return the exact product of an operand of one format and one of the same or another."""
    fmt_b = fmt_b or fmt_a
    if not (isinstance(a, Fraction) and isinstance(b, Fraction)):
        value, exponent = _special_product(a, b), 0
    elif a and b:
        value, exponent = a * b, _exponent(a, fmt_a) + _exponent(b, fmt_b)
    else:
        value, exponent = _zero(a < 0 or b < 0), _exponent(a, fmt_a) + _exponent(b, fmt_b)
    low_a, low_b = _is_subnormal(a, fmt_a), _is_subnormal(b, fmt_b)
    if not (low_a or low_b):
        return Product(value, exponent)
    a, b = (ZERO if low_a else a), (ZERO if low_b else b)
    return Product(value, exponent, product(a, b, fmt_a, fmt_b).value)


def _special_product(a: Exact, b: Exact) -> Exact:
    if a != a or b != b or (math.inf in (abs(a), abs(b)) and 0 in (a, b)):
        return math.nan
    negative = math.copysign(1, a) != math.copysign(1, b)
    if math.inf in (abs(a), abs(b)):
        return -math.inf if negative else math.inf
    return _zero(negative)


def _zero(negative: bool) -> Exact:
    return NEGATIVE_ZERO if negative else ZERO


def _is_subnormal(x: Exact, fmt: Format) -> bool:
    return isinstance(x, Fraction) and x != 0 and floor_log2(abs(x)) < fmt.emin


def check_step(unit: Unit, count: int, fmt: str) -> None:
    """Refuse a step that a matrix unit does not do.

    Args:
        unit: the matrix unit.
        count: the number of products.
        fmt: the format of the accumulator.

    Raises:
        StepError: the unit is not modelled, takes fewer products, or has no such accumulator.
    """
    if unit.not_modelled:
        raise StepError(unit, f"its step is not modelled: {unit.not_modelled}")
    if count > unit.width:
        raise StepError(unit, f"a step takes {unit.width} products, {count} were given")
    if fmt not in unit.accumulators:
        raise StepError(unit, f"its accumulator may be {' or '.join(unit.accumulators)}, not {fmt}")


def check_operands(unit: Unit, left: str, right: str, acc: str) -> None:
    """Refuse operands that a matrix unit does not take together.

    Args:
        unit: the matrix unit.
        left: the short name of the format of the left operands.
        right: that of the right operands.
        acc: that of the accumulator.

    Raises:
        StepError: it takes no such operands, not both at once, or has no such accumulator for them.
    """
    for short in (left, right):
        if short not in unit.inputs:
            raise StepError(unit, f"its operands may be {' or '.join(unit.inputs)}, not {short}")
    if left != right and unit.width > 1 and max(map(_container, (left, right))) > 8:
        raise StepError(unit, f"it does not multiply {left} by {right}; both must be the same")
    if acc == "f16" and unit.width > 1 and "bf16" in (left, right):
        raise StepError(unit, "products of bf16 are accumulated in f32, not f16")


def _container(short: str) -> int:
    return format_of(short).container


def step(unit: Unit, acc: Exact, products: Sequence[Product], fmt: str = "f32") -> Exact:
    """Return the accumulator after one step.

    Args:
        unit: the matrix unit.
        acc: the accumulator before the step, a value of `fmt`.
        products: at most `unit.width` products; missing ones are zeros.
        fmt: the format of the accumulator.

    Returns:
        A value of `fmt`; the unit's code of a NaN is `result_code`.

    Raises:
        StepError: the unit is not modelled, takes fewer products, or has no such accumulator.
    """
    check_step(unit, len(products), fmt)
    return _METHODS[unit.method](unit, acc, products, format_of(fmt))


def result_code(value: Exact, fmt: str = "f32", unit: Unit | None = None) -> int:
    """Return the code that a unit stores; the NaN of NVIDIA's has all bits but the sign set."""
    result = format_of(fmt)
    if value != value and result.has_nan and (unit is None or unit.nan == "ones"):
        return ((1 << (result.bits - result.signed)) - 1) << result.padding
    return encode(value, result)


def _exponent(value: Fraction, fmt: Format) -> int:
    return max(floor_log2(abs(value)), fmt.emin) if value else fmt.emin


def _special_sum(values: Sequence[Exact]) -> Exact | None:
    """Return the sum where NaN or infinities take part, else None."""
    specials = {v for v in values if isinstance(v, float) and not math.isfinite(v)}
    if not specials:
        return None
    return specials.pop() if len(specials) == 1 else math.nan


def _aligned(unit: Unit, acc: Exact, products: Sequence[Product], fmt: Format) -> Exact:
    special = _special_sum([acc, *(p.value for p in products)])
    if special is not None:
        return special
    terms = [(p.value, p.exponent) for p in products if p.value]
    if acc:
        terms.append((acc, _exponent(Fraction(acc), fmt)))
    largest = max([unit.least_exponent(fmt.short), *(exponent for _, exponent in terms)])
    total = sum(_multiple(math.trunc, v, largest - unit.fraction_bits) for v, _ in terms)
    if total == 0:
        return ZERO
    if fmt.short == "f16":
        return round_exact(total, Rounding.of(fmt)) or ZERO
    value = _multiple(math.trunc, total, _exponent(Fraction(total), fmt) - unit.result_bits)
    if abs(value) > fmt.max_finite:
        return -math.inf if value < 0 else math.inf
    return value


def _multiple(to_integer: Callable[[Fraction], int], value: Exact, quantum: int) -> Fraction:
    return scale2(to_integer(Fraction(value) * scale2(1, -quantum)), quantum)


def _dot(unit: Unit, products: Sequence[Product]) -> tuple[Fraction, int]:
    """Return the sum of the cut products, and their largest exponent; far below all without any."""
    terms = [(p.value, p.exponent) for p in products if p.value]
    largest = max((exponent for _, exponent in terms), default=2 * F32.emin - F32.emax * 4)
    quantum = largest - unit.fraction_bits
    return sum((_multiple(math.trunc, v, quantum) for v, _ in terms), ZERO), largest


def _in_range(value: Exact) -> Exact:
    """Return a product; one beyond binary32 is infinite."""
    if isinstance(value, Fraction) and abs(value) >= scale2(1, F32.emax + 1):
        return -math.inf if value < 0 else math.inf
    return value


def _late(unit: Unit, acc: Exact, products: Sequence[Product], fmt: Format) -> Exact:
    special = _special_sum([acc, *(_in_range(p.value) for p in products)])
    if special is not None:
        return special
    bits = unit.fraction_bits
    if unit.method == "late":
        dot, largest = _dot(unit, products)
    else:
        halves = [_dot(unit, products[first::2]) for first in (0, 1)]
        largest = max(exponent for _, exponent in halves)
        dot = sum((_multiple(math.floor, half, largest - bits) for half, _ in halves), ZERO)
    c, exponent = Fraction(acc), _exponent(Fraction(acc), fmt)
    largest = max(largest, exponent)
    if unit.method == "late halves" and exponent < largest - bits - 1:
        c = ZERO
    total = _multiple(math.floor, dot, largest - bits - MORE_BITS)
    total += _multiple(math.floor, c, largest - bits)
    if total == 0:
        return ZERO
    return round_exact(
        _multiple(math.floor, total, _exponent(total, fmt) - LAST_BITS), Rounding.of(fmt)
    )


_FLUSHING: Final = Rounding.of(F32, subnormals="flush")


def _flushed(unit: Unit, acc: Exact, products: Sequence[Product], fmt: Format) -> Exact:
    terms = [round_exact(p.value if p.flushed is None else p.flushed, _FLUSHING) for p in products]
    terms += [ZERO] * (unit.width - len(terms))
    while len(terms) > 1:
        terms = [_flushed_sum(*terms[i : i + 2]) for i in range(0, len(terms), 2)]
    start = ZERO if _is_subnormal(acc, fmt) or not acc else acc
    return _flushed_sum(start, terms[0])


def _flushed_sum(a: Exact, b: Exact) -> Exact:
    return round_exact(_plus(a, b), _FLUSHING)


def _plus(a: Exact, b: Exact) -> Exact:
    special = _special_sum([a, b])
    if special is not None:
        return special
    both = isinstance(a, float) and isinstance(b, float)  # two negative zeros
    return NEGATIVE_ZERO if both else Fraction(a) + Fraction(b)


def _plain(unit: Unit, acc: Exact, products: Sequence[Product], fmt: Format) -> Exact:
    rounding = Rounding.of(fmt)
    for p in products:
        value = p.value if unit.method == "contracted" else round_exact(p.value, rounding)
        acc = round_exact(_plus(acc, value), rounding)
    return acc


_METHODS: Final[dict[Method, Callable[[Unit, Exact, Sequence[Product], Format], Exact]]] = {
    "aligned": _aligned,
    "late": _late,
    "late halves": _late,
    "flushed": _flushed,
    "rounded": _plain,
    "contracted": _plain,
}
