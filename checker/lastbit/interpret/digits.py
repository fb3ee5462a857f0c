"""What is known of how a value is written: enough to tell that a rounding keeps it."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache

from lastbit.formats import Format
from lastbit.rounding import Rounding


@dataclass(frozen=True, slots=True)
class Digits:
    """Every value is m * 2^e with |m| < 2^count and e >= least, and its magnitude is bounded.

    Attributes:
        count: digits of the significand.
        least: the least exponent of the last digit.
        bound: the largest magnitude.
        source: a format whose values these are, where one is known.
    """

    count: int
    least: int
    bound: Fraction
    source: Format | None = None

    @classmethod
    def of_format(cls, fmt: Format) -> Digits:
        """Return what is known of a value of a format."""
        last = fmt.emin - (fmt.precision - 1 if fmt.kind == "float" else 0)
        count = 1 if fmt.kind == "scale" else fmt.precision + (fmt.kind == "integer")
        return cls(count, last, max(fmt.max_finite, -fmt.min_finite), fmt)

    @classmethod
    def of_number(cls, value: Fraction) -> Digits | None:
        """Return what is known of a rational; None unless it is dyadic."""
        if value.denominator & (value.denominator - 1):
            return None
        if value == 0:
            return ZERO
        odd = abs(value.numerator)
        trailing = (odd & -odd).bit_length() - 1
        least = trailing - (value.denominator.bit_length() - 1)
        return cls((odd >> trailing).bit_length(), least, abs(value))

    def fits(self, rounding: Rounding) -> bool:
        """Return whether `rounding` keeps every such value, on ordinary runs.

        Ordinary runs have no overflow and no nonzero result below the smallest normal number,
        so a binary format needs enough digits only; saturation must be out of reach.
        """
        return _fits(self, rounding)

    def __mul__(self, other: Digits) -> Digits:
        if ZERO in (self, other):
            return ZERO
        powers = self.count == 1 or other.count == 1  # of two: the significand stays as it is
        count = max(self.count, other.count) if powers else self.count + other.count
        return Digits(count, self.least + other.least, self.bound * other.bound)

    def __add__(self, other: Digits) -> Digits:
        if self == ZERO or other == ZERO:
            return other if self == ZERO else self
        bound = self.bound + other.bound
        return _fixed(min(self.least, other.least), bound)

    def times(self, terms: int) -> Digits:
        """Return what is known of a sum of so many such values."""
        same = terms == 1 or self == ZERO
        return self if same else _fixed(self.least, self.bound * max(terms, 1))

    def plain(self) -> Digits:
        """Return the same facts without the source."""
        return Digits(self.count, self.least, self.bound)


def _fixed(least: int, bound: Fraction) -> Digits:
    scaled = bound / Fraction(2) ** least
    return Digits(int(scaled).bit_length(), least, bound)


ZERO = Digits(0, 1 << 30, Fraction(0))


@lru_cache(maxsize=4096)
def _fits(digits: Digits, rounding: Rounding) -> bool:
    fmt = rounding.format
    if digits.source == fmt:
        return True
    if digits.count > fmt.precision or fmt.kind == "scale":
        return False
    if rounding.overflow == "saturate" and digits.bound > fmt.max_finite:
        return False
    if fmt.kind == "integer":
        return digits.least >= 0 and digits.bound <= fmt.max_finite and fmt.signed
    return True


def join(*known: Digits | None) -> Digits | None:
    """Return what holds for values of which each is one of several kinds."""
    out: Digits | None = ZERO
    for digits in known:
        if digits is None or out is None:
            return None
        if digits == ZERO:
            continue
        if out in (ZERO, digits):
            out = digits
            continue
        same = out.source if out.source == digits.source else None
        out = Digits(
            max(out.count, digits.count),
            min(out.least, digits.least),
            max(out.bound, digits.bound),
            same,
        )
    return out
