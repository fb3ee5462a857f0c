"""Rounding, encoding and decoding of whole arrays, bit-equal to the exact core.

float64 arrays carry the values of every format of at most 53 digits; the bits of a NaN mean nothing
here. Each element x is scaled by a power of two, so that the values of the format around x are
integers; scaling, rounding to an integer and scaling back are exact in binary64, because the
integers have fewer than 53 digits.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Iterator
from typing import Any, Final, TypeAlias

import numpy as np
import numpy.typing as npt

from lastbit.formats import (
    BF16,
    F16,
    F32,
    F64,
    INT32,
    TF32,
    CodeError,
    Format,
    FormatError,
    NotRepresentableError,
    as_exact,
    decode,
    encode,
)
from lastbit.rounding import DRAW_BITS, Mode, Rounding, overflow_value

Floats: TypeAlias = npt.NDArray[np.float64]
Codes: TypeAlias = npt.NDArray[np.unsignedinteger[Any]]
Words: TypeAlias = npt.NDArray[np.uint64]

_CHUNK: Final = 1 << 14  # elements; the temporaries of a chunk stay in the cache
_EXPONENT: Final = np.uint64(0x7FF << 52)


class CarrierError(FormatError):
    """An array, or a format, that float64 arrays do not carry.

    Attributes:
        given: the format's name, or the array's type.
    """

    def __init__(self, given: str, remedy: str) -> None:
        self.given = given
        super().__init__(f"float64 arrays do not carry {given}. {remedy}")


def round_array(x: npt.NDArray[np.floating[Any]], rounding: Rounding) -> Floats:
    """Return the rounded elements of a float64 or float32 array, as a new float64 array.

    Every element equals what `round_exact` gives for it.

    Raises:
        CarrierError: the elements are no float64 or float32, or the format has more than 53 digits.
    """
    fmt = rounding.format
    require_carried(fmt)
    require_floats(x)
    result = np.empty(x.shape, np.float64)
    source, target = x.reshape(-1), result.reshape(-1)
    with np.errstate(over="ignore", under="ignore", invalid="ignore"):
        for part in _chunks(target.size):
            _round_chunk(np.asarray(source[part], np.float64), target[part], rounding)
    return result


def _chunks(size: int) -> Iterator[slice]:
    for start in range(0, size, _CHUNK):
        yield slice(start, start + _CHUNK)


def require_carried(fmt: Format) -> None:
    """Raise a CarrierError unless float64 arrays carry the format."""
    if fmt.precision > F64.precision:
        raise CarrierError(fmt.name, "Use the exact core for it.")


def require_floats(x: npt.NDArray[np.floating[Any]]) -> None:
    """Raise a CarrierError unless the array is one of float64 or float32."""
    if x.dtype not in (np.float64, np.float32):
        remedy = "Decode it, or convert it to float64 where that is exact."
        raise CarrierError(f"elements of type {x.dtype}", remedy)


def _round_chunk(x: Floats, out: Floats, rounding: Rounding) -> None:
    fmt = rounding.format
    if fmt == F64:
        out[:] = x
    elif rounding == _PLAIN_F32:
        out[:] = x.astype(np.float32)
        return
    else:
        _round_unbounded(x, out, rounding)
    _settle_range(x, out, rounding)


_PLAIN_F32: Final = Rounding.of(F32)


def _round_unbounded(x: Floats, out: Floats, rounding: Rounding) -> None:
    """Round as if the exponent had no upper limit."""
    fmt = rounding.format
    beyond = 2.0 ** (fmt.emax + 2)  # overflows whatever the mode; keeps the scales finite
    s = np.minimum(np.maximum(x, -beyond), beyond)
    if fmt.kind == "scale":
        s = np.maximum(s, float(fmt.min_finite))
    if fmt.kind == "integer":
        _round_to_integers(s, x, out, rounding)
        return
    # 2^floor(log2 |x|) has the exponent bits of x; that of 1 / q follows by subtraction.
    quantum = (s.view(np.uint64) & _EXPONENT).view(np.float64)
    np.maximum(quantum, 2.0**fmt.emin, out=quantum)
    quantum *= 2.0 ** (1 - fmt.precision)
    s *= (np.uint64(2046 << 52) - quantum.view(np.uint64)).view(np.float64)
    _round_to_integers(s, x, out, rounding)
    out *= quantum


def _round_to_integers(s: Floats, x: Floats, out: Floats, rounding: Rounding) -> None:
    """Round the scaled elements s to integers; x are the elements before scaling."""
    match rounding.mode:
        case Mode.NEAREST_EVEN:
            np.rint(s, out=out)
        case Mode.TOWARD_ZERO:
            np.trunc(s, out=out)
        case Mode.UP:
            np.ceil(s, out=out)
        case Mode.DOWN:
            np.floor(s, out=out)
        case Mode.NEAREST_AWAY | Mode.TO_ODD | Mode.STOCHASTIC:
            np.trunc(s, out=out)
            rest = np.abs(s - out)
            if rounding.mode is Mode.NEAREST_AWAY:
                above = rest >= 0.5
            elif rounding.mode is Mode.TO_ODD:
                above = (rest > 0) & (2 * np.trunc(out / 2) == out)
            else:
                above = rest > _draws(x, rounding.seed)
            out += np.copysign(above, s)


def _draws(x: Floats, seed: int) -> Floats:
    """Return the numbers in [0, 1) that stochastic rounding draws for the elements."""
    mixed_seed = _mix(np.array(seed & (2**64 - 1), np.uint64))
    draws = _mix(x.view(np.uint64) ^ mixed_seed) >> np.uint64(64 - DRAW_BITS)
    return draws.astype(np.float64) * 2.0**-DRAW_BITS


def _mix(z: Words) -> Words:
    """Mix words of 64 bits; the same function as in the exact core."""
    z = z + np.uint64(0x9E3779B97F4A7C15)
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return z ^ (z >> np.uint64(31))


def _settle_range(x: Floats, out: Floats, rounding: Rounding) -> None:
    """Settle NaN, overflow, subnormals and the sign of zero in the rounded elements."""
    fmt = rounding.format
    low = out < float(fmt.min_finite)
    if not fmt.has_zero:
        low |= x <= 0
    out[out > float(fmt.max_finite)] = float(overflow_value(False, rounding))
    out[low] = float(overflow_value(True, rounding))
    if fmt.has_inf and rounding.overflow != "saturate":
        np.copyto(out, x, where=np.isinf(x))
    if not fmt.has_nan:
        out[np.isnan(x)] = float(fmt.nan)
    if rounding.subnormals == "flush":
        out[np.abs(out) < float(fmt.min_normal)] *= 0.0
    if not fmt.has_negative_zero:
        out += 0.0


def code_type(fmt: Format) -> np.dtype[np.unsignedinteger[Any]]:
    """Return the unsigned type that holds the codes of a format: uint8 for 8 bits and fewer."""
    return np.dtype(f"u{max(1, fmt.container // 8)}")


def encode_array(values: npt.NDArray[np.floating[Any]], fmt: Format) -> Codes:
    """Return the codes of the elements, as an array of `code_type`.

    Every code equals what `encode` gives.

    Raises:
        CarrierError: the elements are no float64 or float32, or the format has more than 53 digits.
        NotRepresentableError: the format does not hold an element; the error names the first.
    """
    require_carried(fmt)
    require_floats(values)
    floats: Floats = np.asarray(values, np.float64)
    with np.errstate(over="ignore", under="ignore", invalid="ignore"):
        codes = np.asarray(_encode(floats, fmt))
    nan = np.isnan(floats)
    if fmt.has_nan:
        codes[nan] = encode(math.nan, fmt)
    decoded = decode_array(codes, fmt)
    held = decoded.view(np.uint64) == floats.view(np.uint64)
    held |= nan & np.isnan(decoded)
    if not held.all():
        raise NotRepresentableError(as_exact(float(floats[~held][0])), fmt)
    return codes


def _encode(values: Floats, fmt: Format) -> Codes:
    """Return the codes of the elements that the format holds, and any code for the others."""
    match fmt.short:
        case F64.short:
            return values.view(np.uint64).copy()
        case F32.short | TF32.short:
            used = ((1 << fmt.bits) - 1) << fmt.padding
            return values.astype(np.float32).view(np.uint32) & np.uint32(used)
        case F16.short:
            return values.astype(np.float16).view(np.uint16)
        case BF16.short:
            return (values.astype(np.float32).view(np.uint32) >> np.uint32(16)).astype(np.uint16)
        case INT32.short:
            return values.astype(np.int64).astype(np.uint32)
        case _:
            return _codes_by_bf16(fmt)[_encode(values, BF16)]


def decode_array(codes: Codes, fmt: Format) -> Floats:
    """Return the values of an array of codes, as a float64 array.

    Raises:
        CarrierError: the format has more than 53 digits.
        CodeError: an element is no code of the format; the error names the first.
    """
    require_carried(fmt)
    used = ((1 << fmt.bits) - 1) << fmt.padding
    wrong = (codes & ~codes.dtype.type(used & np.iinfo(codes.dtype).max)) != 0
    if wrong.any():
        raise CodeError(int(codes[wrong][0]), fmt)
    with np.errstate(invalid="ignore"):  # a signalling NaN
        return np.asarray(_decode(codes.astype(code_type(fmt), copy=False), fmt))


def _decode(codes: Codes, fmt: Format) -> Floats:
    match fmt.short:
        case F64.short:
            return codes.view(np.float64).copy()
        case F32.short | TF32.short:
            return codes.view(np.float32).astype(np.float64)
        case F16.short:
            return codes.view(np.float16).astype(np.float64)
        case BF16.short:
            return (codes.astype(np.uint32) << np.uint32(16)).view(np.float32).astype(np.float64)
        case INT32.short:
            return codes.view(np.int32).astype(np.float64)
        case _:
            return _values_by_code(fmt)[codes]


@functools.cache
def _values_by_code(fmt: Format) -> Floats:
    """Return the value of every code of a format of at most 8 bits."""
    return np.array([float(decode(code, fmt)) for code in range(1 << fmt.bits)])


@functools.cache
def _codes_by_bf16(fmt: Format) -> npt.NDArray[np.uint8]:
    """Return a table from bfloat16 codes; bfloat16 holds every value of 8 bits and fewer."""
    table = np.zeros(1 << BF16.bits, np.uint8)
    for code, value in enumerate(_values_by_code(fmt)):
        if not math.isnan(value):
            table[encode(as_exact(float(value)), BF16)] = code
    return table
