"""Numbers as a format holds them, and simpler ones that might do as well."""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction
from functools import lru_cache

from lastbit.formats import Exact, Format
from lastbit.rounding import Rounding, round_exact


@lru_cache(maxsize=64)
def _saturating(fmt: Format) -> Rounding:
    return Rounding.of(fmt, overflow="saturate")


def held_in(value: Fraction, fmt: Format) -> Exact:
    """Return the value of a format next to a number; a zero is positive."""
    held = round_exact(value if fmt.signed else abs(value), _saturating(fmt))
    return Fraction(0) if held == 0 else held


def simpler(value: Exact, fmt: Format) -> Iterator[Exact]:
    """Yield simpler values that might do as well, the simplest first."""
    if not isinstance(value, Fraction) or value == 0:
        return
    tried = {value}
    sign = 1 if value > 0 else -1
    magnitude = abs(value)
    power = Fraction(2) ** (magnitude.numerator.bit_length() - magnitude.denominator.bit_length())
    options = [Fraction(0), Fraction(1), Fraction(sign), magnitude, sign * power, power]
    for bits in (2, 3, 5):
        quantum = power / 2**bits
        options.append(sign * round(magnitude / quantum) * quantum)
    for option in options:
        rounded = round_exact(option, _saturating(fmt))
        if option not in tried and rounded == option:
            tried.add(option)
            yield option
