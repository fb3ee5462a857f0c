"""Integer arithmetic as libraries do it: modulo 2**bits of the type.

Values of the text form are exact numbers, so that what leaves the range of its type has to be
brought back. The sum of two int8 values, 100 + 100, is -56.
"""

from __future__ import annotations

from collections.abc import Iterable

from lastbit.importers.imported import is_float

MOST_BITS = 32  # of a type that wraps; 64-bit integers are indices, and taken to lie below 2**31
MOST_EXACT = 2**52  # beyond it float64 arrays, which carry the values, are not exact


def limits(dtype: str) -> tuple[int, int] | None:
    """Return the smallest and the largest integer of a type; None where it is no integer type."""
    if dtype == "bool":
        return 0, 1
    if is_float(dtype):
        return None
    bits = int(dtype[1:])
    return (0, 2**bits - 1) if dtype[0] == "u" else (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1)


def wraps(dtype: str) -> bool:
    """Return whether results of a type may leave its range: integers of at most 32 bits."""
    return not is_float(dtype) and dtype != "bool" and int(dtype[1:]) <= MOST_BITS


def wrapped(text: str, dtype: str, ends: Iterable[int] | None) -> str | None:
    """Return an integer expression brought into the range of a type, which keeps it modulo 2**bits.

    Args:
        text: an expression of integers, exact.
        dtype: the type of the result.
        ends: the smallest and the largest value that the expression may have; None: not known.

    Returns:
        the expression itself where it fits; None where no array could hold what it gives before.
    """
    own = limits(dtype)
    if own is None or not wraps(dtype):
        return text
    low, high = own
    found = list(ends) if ends is not None else [MOST_EXACT + 1]
    if all(low <= end <= high for end in found):
        return text
    if max(map(abs, found)) > MOST_EXACT:
        return None
    bits = int(dtype[1:])
    count = _power(bits)
    moved = f"({text})" if low == 0 else f"({text} + {_power(bits - 1)})"
    return f"{text} - {count} * floor({moved} / {count})"


def _power(bits: int) -> str:
    """Return 2**bits as products of small powers, which are taken for no sizes."""
    parts = [min(8, bits - start) for start in range(0, bits, 8)]
    return f"({' * '.join(f'2 ** {part}' for part in parts)})"
