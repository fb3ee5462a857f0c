"""Exact numbers as short texts that lose nothing."""

from __future__ import annotations

import math
from fractions import Fraction
from functools import lru_cache

from lastbit.formats import Exact, floor_log2
from lastbit.records import hex_of

_RAISED = "\u207b\u2070\u00b9\u00b2\u00b3\u2074\u2075\u2076\u2077\u2078\u2079"
_SUPERSCRIPTS = str.maketrans("-0123456789", _RAISED)
_MOST_DIGITS = 6
MOST_CHARACTERS = 24
MINUS, INFINITY = "\u2212", "\u221e"


@lru_cache(maxsize=4096, typed=True)  # typed, since -0.0 equals Fraction(0)
def exact_text(value: Exact) -> str:
    """Write a number exactly: in decimal if short, as a power of two, else in hexadecimal.

    One that is no binary64 value is written as a quotient, or where that is long with the sign of
    what is only near.
    """
    if isinstance(value, float):
        if math.isnan(value):
            return "NaN"
        sign = MINUS if math.copysign(1, value) < 0 else ""
        return sign + ("0" if value == 0 else INFINITY)
    sign, size = MINUS if value < 0 else "", abs(value)
    decimal = _decimal(size)
    if decimal is not None:
        return sign + decimal
    for n, of in ((size.numerator, size.denominator), (size.denominator, size.numerator)):
        if of == 1 and n & (n - 1) == 0:
            exponent = n.bit_length() - 1 if size > 1 else 1 - n.bit_length()
            return f"{sign}2{str(exponent).translate(_SUPERSCRIPTS)}"
    try:
        return sign + hex_of(size)
    except (OverflowError, ValueError):  # binary64 does not hold it
        return _shortened(sign, size)


def _shortened(sign: str, size: Fraction) -> str:
    """Return a quotient, or where that is long its first digits, marked as such."""
    text = str(size)
    if len(text) <= MOST_CHARACTERS:
        return sign + text
    try:
        return f"\u2248{sign}{float(size):.6g}"
    except OverflowError:
        return f"\u2248{sign}2{str(floor_log2(size)).translate(_SUPERSCRIPTS)}"


def _decimal(size: Fraction) -> str | None:
    """Return a decimal of few digits that is exact, or None."""
    if size >= 10**_MOST_DIGITS:
        return None
    scaled = size * 10**_MOST_DIGITS
    if scaled.denominator != 1:
        return None
    whole, part = divmod(scaled.numerator, 10**_MOST_DIGITS)
    digits = f"{part:0{_MOST_DIGITS}d}".rstrip("0")
    text = f"{whole}.{digits}" if digits else str(whole)
    return text if len(text) <= _MOST_DIGITS + 2 else None
