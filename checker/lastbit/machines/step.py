"""One step of a matrix unit, in exact rationals.

1. A product is the exact product of the significands with exponent e_a + e_b; it is not
   normalised. A subnormal operand keeps the smallest exponent of its format.
2. The accumulator joins the same sum with its own exponent. A zero counts with a floor exponent.
3. With E the largest exponent of the terms, each term is cut to a multiple of 2^(E - F).
4. The sum is exact; it becomes a value of the accumulator's format once.
5. A zero result is +0. NaN, inf * 0 and inf - inf give NaN; overflow gives inf.
6. The result is the accumulator of the next step.

Sources: `lastbit.machines.table`. Bound of one step: (L + 1) * 2^(E - F) plus one ulp of the
result.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

from lastbit.errors import LastbitError
from lastbit.formats import (
    NEGATIVE_ZERO,
    ZERO,
    Exact,
    Format,
    encode,
    floor_log2,
    format_of,
    scale2,
)
from lastbit.machines.table import Unit
from lastbit.rounding import Rounding, round_exact


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
    """

    value: Exact
    exponent: int


def product(a: Exact, b: Exact, fmt_a: Format, fmt_b: Format | None = None) -> Product:
    """Return the exact product of an operand of one format and one of the same or another."""
    if isinstance(a, Fraction) and isinstance(b, Fraction):
        return Product(a * b, _exponent(a, fmt_a) + _exponent(b, fmt_b or fmt_a))
    negative = math.copysign(1, a) != math.copysign(1, b)
    if a != a or b != b:
        value = math.nan
    elif math.inf in (abs(a), abs(b)):
        value = math.nan if 0 in (a, b) else -math.inf if negative else math.inf
    else:
        return Product(NEGATIVE_ZERO if negative else ZERO, 0)
    return Product(value, 0)


def step(unit: Unit, acc: Exact, products: Sequence[Product], fmt: str = "f32") -> Exact:
    """Return the accumulator after one step.

    Args:
        unit: the matrix unit.
        acc: the accumulator before the step, a value of `fmt`.
        products: at most `unit.width` products; missing ones are zeros.
        fmt: the format of the accumulator, `f32` or `f16`.

    Returns:
        A value of `fmt`; the unit's code of a NaN is `result_code`.

    Raises:
        StepError: the unit is not modelled, takes fewer products, or has no such accumulator.
    """
    if unit.not_modelled:
        raise StepError(unit, f"its step is not modelled: {unit.not_modelled}")
    if len(products) > unit.width:
        raise StepError(unit, f"a step takes {unit.width} products, {len(products)} were given")
    if fmt not in unit.floor:
        raise StepError(unit, f"its accumulator may be {' or '.join(unit.floor)}, not {fmt}")
    special = _special_sum([acc, *(p.value for p in products)])
    if special is not None:
        return special
    result = format_of(fmt)
    terms = [(p.value, p.exponent) for p in products if p.value]
    if acc:
        terms.append((acc, _exponent(Fraction(acc), result)))
    largest = max([unit.floor[fmt], *(exponent for _, exponent in terms)])
    quantum = largest - unit.fraction_bits
    cut = math.floor if unit.align == "down" else math.trunc
    total = scale2(sum(cut(value * scale2(1, -quantum)) for value, _ in terms), quantum)
    return _result(unit, total, result)


def result_code(value: Exact, fmt: str = "f32") -> int:
    """Return the code that a unit of NVIDIA stores; its NaN has all bits but the sign set."""
    result = format_of(fmt)
    return (1 << (result.bits - 1)) - 1 if value != value else encode(value, result)


def _exponent(value: Fraction, fmt: Format) -> int:
    return max(floor_log2(abs(value)), fmt.emin) if value else fmt.emin


def _special_sum(values: Sequence[Exact]) -> Exact | None:
    """Return the sum where NaN or infinities take part, else None."""
    specials = {v for v in values if isinstance(v, float) and not math.isfinite(v)}
    if not specials:
        return None
    return specials.pop() if len(specials) == 1 else math.nan


def _result(unit: Unit, total: Fraction, fmt: Format) -> Exact:
    if total == 0:
        return ZERO
    if unit.result == "nearest-even" or fmt.short == "f16":
        rounded = round_exact(total, Rounding.of(fmt))
        return rounded if rounded else ZERO
    quantum = _exponent(total, fmt) - unit.result_bits
    value = scale2(math.trunc(total * scale2(1, -quantum)), quantum)
    if abs(value) > fmt.max_finite:
        return -math.inf if value < 0 else math.inf
    return value
