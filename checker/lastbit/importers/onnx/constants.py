"""Numbers that an ONNX file holds: small constants as exact numbers, and as literals.

Literals in a file are already rounded. One that is the rounding of a named real, of sqrt(2) or of
1 / sqrt(64) for instance, is written as that rounding, so that the real shows.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Iterator
from fractions import Fraction
from functools import lru_cache
from typing import Any

from lastbit.formats import format_of
from lastbit.printing import number_text
from lastbit.rounding import Rounding, round_exact

MOST_NUMBERS = 1024  # of a constant that is read
Number = Fraction | float

# How raw data is packed, for struct; bfloat16 is the upper half of a binary32.
_PACKED = {
    "f16": "e",
    "f32": "f",
    "f64": "d",
    "i8": "b",
    "u8": "B",
    "i16": "h",
    "u16": "H",
    "i32": "i",
    "u32": "I",
    "i64": "q",
    "u64": "Q",
    "bool": "?",
    "bf16": "H",
}

_REALS = {
    "0.044715": 0.044715,  # of the tanh form of GELU
    "pi": math.pi,
    "ln2": math.log(2),
    "log2e": 1 / math.log(2),
    "sqrt(2)": math.sqrt(2),
    "sqrt(2 / pi)": math.sqrt(2 / math.pi),
    "2 / pi": 2 / math.pi,
    "rsqrt(2)": math.sqrt(0.5),
    "2 / sqrt(pi)": 2 / math.sqrt(math.pi),
    **{f"rsqrt({n})": n**-0.5 for n in range(8, 1025, 8) if math.isqrt(n) ** 2 != n},
}
_NARROW_FIRST = ("bf16", "f16", "f32")


def numbers(tensor: Any, dtype: str) -> tuple[Number, ...] | None:
    """Return the numbers of a small tensor, exactly; None where the file does not hold them here.

    Args:
        tensor: a TensorProto.
        dtype: its type.

    Raises:
        ValueError: the data does not fit the shape.
    """
    count = math.prod(tensor.dims)
    if not 0 <= count <= MOST_NUMBERS or dtype not in _PACKED or tensor.external_data:
        return None
    if count == 0:
        return ()
    found = tuple(_packed(tensor.raw_data, dtype) if tensor.raw_data else _listed(tensor, dtype))
    if not found:
        return None
    if len(found) != count:
        raise ValueError(f"holds {len(found)} numbers for {count} elements")
    return found


def _packed(raw: bytes, dtype: str) -> Iterator[Number]:
    code = f"<{_PACKED[dtype]}"
    if len(raw) % struct.calcsize(code):
        raise ValueError(f"holds {len(raw)} bytes, which are no {dtype} numbers")
    for (value,) in struct.iter_unpack(code, raw):
        yield _from_bits(value, dtype) if dtype == "bf16" else exact(value)


def _listed(tensor: Any, dtype: str) -> Iterator[Number]:
    """Yield the numbers of the typed fields (onnx.proto3, TensorProto)."""
    if dtype in ("f16", "bf16"):
        for bits in tensor.int32_data:
            yield _from_bits(bits & 0xFFFF, dtype)
        return
    field = {"f32": "float_data", "f64": "double_data", "i64": "int64_data"}.get(dtype)
    field = field or ("uint64_data" if dtype in ("u32", "u64") else "int32_data")
    for value in getattr(tensor, field):
        yield exact(value)


def _from_bits(bits: int, dtype: str) -> Number:
    if dtype == "bf16":
        return exact(struct.unpack("<f", struct.pack("<I", bits << 16))[0])
    return exact(struct.unpack("<e", struct.pack("<H", bits))[0])


def exact(value: float) -> Number:
    """Return a number exactly; inf, NaN and -0.0 stay floats."""
    odd = isinstance(value, float) and not (math.isfinite(value) and str(value) != "-0.0")
    return value if odd else Fraction(value)


def cast(number: Number, dtype: str) -> Number:
    """Return a number rounded to a type, as a cast does; an integer type cuts off."""
    if dtype in ("f16", "bf16", "f32", "f64"):
        return round_exact(number, Rounding.of(format_of(dtype)))
    if isinstance(number, float):
        return number
    return Fraction(int(number != 0)) if dtype == "bool" else Fraction(math.trunc(number))


@lru_cache(maxsize=4096)
def literal(number: Number) -> str:
    """Return a number as an expression of the text form, in parentheses where needed."""
    real = _rounded_real(number) if isinstance(number, Fraction) else None
    text = real or _decimal(number) or number_text(number)
    return f"({text})" if text[:1] == "-" or (real is None and "/" in text) else text


def rounded_literal(number: Number, dtype: str) -> str:
    """Return a number that is rounded to a type, as an expression in which the rounding shows."""
    held = cast(number, dtype)
    text = literal(held)
    if held == number or held != held or text.lstrip("(-").startswith("round("):
        return text
    return f"round({literal(number)}, {dtype})"


def _decimal(number: Number) -> str | None:
    """Return a number as a short decimal that is exactly it, or None."""
    if not isinstance(number, Fraction) or number.denominator > 1024:
        return None
    text = repr(float(number)).removesuffix(".0")
    short = len(text) <= 12 and "e" not in text
    return text if short and Fraction(text) == number else None


def _rounded_real(number: Fraction) -> str | None:
    """Return a named real with the rounding of which a number is the result, or None."""
    sign, size = ("-" if number < 0 else ""), abs(number)
    if size.numerator.bit_length() < 6:  # short enough to be meant
        return None
    for fmt in _NARROW_FIRST:
        rounding = Rounding.of(format_of(fmt))
        if round_exact(size, rounding) != size:
            continue
        for text, real in _REALS.items():
            if round_exact(Fraction(real), rounding) == size:
                return f"{sign}round({text}, {fmt})"
        return None
    return None
