"""Bytes, shares and times in words."""

from __future__ import annotations

from fractions import Fraction

UNITS = ("bytes", "KiB", "MiB", "GiB", "TiB")


def unit_of(count: int) -> int:
    """Return the unit in which bytes are written: the largest of which there is at least one.

    MiB go up to 10 GiB, so that the traffic of one operator and of the next is in one unit.
    """
    scale = 0
    while scale < len(UNITS) - 1 and count >= 1024 ** (scale + 1) * (10 if scale >= 2 else 1):
        scale += 1
    return scale


def size(count: int) -> str:
    """Write a number of bytes."""
    scale = unit_of(count)
    return f"{count / 1024**scale:.1f}".removesuffix(".0") + f" {UNITS[scale]}"


def more(before: int, after: int) -> str:
    """Write by how much a number grew, in percent."""
    return f"+{100 * (after - before) / before:.3g} %" if before else "from nothing"


def time(seconds: Fraction, digits: int = 3) -> str:
    """Write a time in microseconds with so many digits, and all of those before the point."""
    micro = float(seconds * 10**6)
    return f"{micro:.0f} us" if micro >= 10 ** (digits - 1) else f"{micro:.{digits}g} us"


def times_of(before: Fraction, after: Fraction) -> str:
    """Write two times, with the digits in which they differ."""
    if before == after:
        return f"{time(before)} on both sides"
    pairs = ((time(before, digits), time(after, digits)) for digits in range(3, 17))
    one, two = next((pair for pair in pairs if pair[0] != pair[1]), (time(before), time(after)))
    return f"{one} -> {two}"
