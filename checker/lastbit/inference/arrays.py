"""Codes of number formats as arrays of numpy and torch, and back.

A code is an unsigned integer that holds the bits of one value. All NaN of a format count as one,
since hardware and libraries differ in which of them they write.
"""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from lastbit.errors import InputError, Problem
from lastbit.formats import FORMATS, Format, encode
from lastbit.round_array import Codes, code_type, decode_array, encode_array, round_array
from lastbit.rounding import Rounding

NUMPY: Final[Mapping[str, str]] = {
    "f64": "float64",
    "f32": "float32",
    "f16": "float16",
    "bf16": "bfloat16",
    "e5m2": "float8_e5m2",
    "e4m3fn": "float8_e4m3fn",
    "e4m3fnuz": "float8_e4m3fnuz",
    "e5m2fnuz": "float8_e5m2fnuz",
    "e3m2": "float6_e3m2fn",
    "e2m3": "float6_e2m3fn",
    "e2m1": "float4_e2m1fn",
    "e8m0": "float8_e8m0fnu",
    "int8": "int8",
    "uint8": "uint8",
    "int4": "int4",
    "int32": "int32",
}
TORCH: Final[Mapping[str, str]] = {
    **{k: v for k, v in NUMPY.items() if k not in ("e3m2", "e2m3", "e2m1", "int4")},
}
NATIVE: Final = ("float64", "float32", "float16", "int8", "uint8", "int32")
SHORT: Final[Mapping[str, str]] = {name: short for short, name in NUMPY.items()}


def canonical_codes(codes: Codes, fmt: Format) -> Codes:
    """Return codes of a format in which every NaN has the same one."""
    codes = codes.astype(code_type(fmt), copy=False)
    if not fmt.has_nan:
        return codes
    nan = np.isnan(decode_array(codes, fmt))
    return np.where(nan, codes.dtype.type(encode(fmt.nan, fmt)), codes) if nan.any() else codes


def native(codes: Codes, fmt: Format, library: str, device: str = "cpu") -> Any:
    """Return codes as an array that a kernel reads.

    Args:
        codes: of the format.
        fmt: the format.
        library: `numpy` or `torch`.
        device: where a torch tensor lies.

    Raises:
        InputError: the library has no arrays of the format.
    """
    if fmt.short == "tf32":
        return native(codes, FORMATS["f32"], library, device)
    names = NUMPY if library == "numpy" else TORCH
    if fmt.short not in names:
        raise InputError(
            [
                Problem(
                    f"{library} has no arrays of {fmt.short}",
                    f"Formats of inputs may be {', '.join(names)}.",
                )
            ]
        )
    codes = np.ascontiguousarray(codes)
    if library == "numpy":
        return codes.view(numpy_type(fmt)).copy()
    torch = importlib.import_module("torch")
    plain = codes.view(numpy_type(fmt)) if names[fmt.short] in NATIVE else _signed(codes)
    tensor = torch.from_numpy(plain.copy())
    if names[fmt.short] not in NATIVE:
        tensor = tensor.view(getattr(torch, names[fmt.short]))
    return tensor.to(device)


def _signed(codes: Codes) -> NDArray[Any]:
    """Return codes in a type that every torch has: int16, or uint8."""
    return codes.view(np.int16) if codes.dtype.itemsize == 2 else codes


def numpy_type(fmt: Format) -> np.dtype[Any]:
    """Return the numpy type of a format; ml_dtypes brings those that numpy lacks."""
    name = NUMPY[fmt.short]
    if name in NATIVE:
        return np.dtype(name)
    kind: np.dtype[Any] = np.dtype(getattr(importlib.import_module("ml_dtypes"), name))
    return kind


def is_torch(value: Any) -> bool:
    """Return whether a value is a torch tensor, without importing torch."""
    return any(kind.__module__.partition(".")[0] == "torch" for kind in type(value).__mro__)


def plain_array(value: Any) -> tuple[NDArray[Any], Format | None] | None:
    """Return what a kernel returned as an array; codes where numpy lacks its format.

    Returns:
        the array, and the format of its codes or None where it is an array of numbers; None for
        what is no array.
    """
    if is_torch(value):
        return _from_torch(value.detach().cpu().contiguous())
    if isinstance(value, np.ndarray | np.generic):
        array = np.asarray(value)
    elif isinstance(value, float):
        array = np.asarray(value, np.float64)
    elif hasattr(value, "__dlpack__"):
        array = np.from_dlpack(value)
    else:
        return None
    name = array.dtype.name
    if name in SHORT and name not in NATIVE:
        fmt = FORMATS[SHORT[name]]
        return np.ascontiguousarray(array).view(code_type(fmt)), fmt
    return array, None


def _from_torch(tensor: Any) -> tuple[NDArray[Any], Format | None]:
    torch = importlib.import_module("torch")
    name = str(tensor.dtype).removeprefix("torch.")
    if name in SHORT and name not in NATIVE:
        fmt = FORMATS[SHORT[name]]
        kind = torch.int16 if fmt.container == 16 else torch.uint8
        return tensor.view(kind).numpy().view(code_type(fmt)), fmt
    return tensor.numpy(), None


def codes_of(array: NDArray[Any], held: Format | None, fmt: Format) -> Codes | str:
    """Return the codes of an array in a format, or what is wrong with it.

    Numbers of another type count where the format holds every one of them; unsigned integers,
    and signed ones, of the format's width count as its codes.

    Args:
        array: numbers, or codes of `held`.
        held: the format of the codes; None for numbers.
        fmt: the format wanted.
    """
    if held is not None:
        if held == fmt:
            return canonical_codes(array, fmt)
        values, name = decode_array(array, held), held.short
    elif array.dtype.kind in "iu" and fmt.kind != "integer":
        if array.dtype.itemsize != code_type(fmt).itemsize:
            return f"elements of type {array.dtype}, and codes of {fmt.short} have {_bits(fmt)}"
        return canonical_codes(array.view(code_type(fmt)), fmt)
    elif array.dtype.kind in "iu":
        values, name = array.astype(np.float64), array.dtype.name
        if (np.asarray(values, np.float64).astype(array.dtype) != array).any():
            return f"elements of type {array.dtype} beyond 2^53"
    elif array.dtype.kind == "f" and array.dtype.itemsize <= 8:
        values, name = array.astype(np.float64), SHORT[array.dtype.name]
        if name == "f64" and fmt.short == "f64":
            return canonical_codes(values.view(np.uint64), fmt)
    else:
        return f"elements of type {array.dtype}"
    return _exactly(np.asarray(values, np.float64), name, fmt)


def _bits(fmt: Format) -> str:
    return f"{code_type(fmt).itemsize * 8} bits"


def _exactly(values: NDArray[np.float64], name: str, fmt: Format) -> Codes | str:
    rounded = round_array(values, Rounding.of(fmt))
    same = (rounded.view(np.uint64) == values.view(np.uint64)) | (
        np.isnan(values) & np.isnan(rounded)
    )
    if not same.all():
        place = tuple(int(i) for i in np.argwhere(~same)[0])
        where = f"[{', '.join(map(str, place))}]"
        return f"{name} with {float(values[place])!r} at {where}, which is no {fmt.short}"
    return canonical_codes(encode_array(rounded, fmt), fmt)
