"""Triton's interpreter, with the conversions and products of a processor that rounds.

The interpreter itself truncates where it converts to bf16 and FP8, and multiplies the codes of bf16
in place of their numbers. Here numbers are converted by ml_dtypes, to nearest even, and a product
of matrices is summed in binary64 and rounded once: not what a matrix unit does, but the same for
sums that are exact, so that tiles, masks and indices are tested.
"""

from __future__ import annotations

import os

os.environ["TRITON_INTERPRET"] = "1"  # before triton is imported

import ml_dtypes
import numpy as np
import triton.language as tl
from triton.runtime import interpreter

KINDS = {
    tl.float32: np.float32,
    tl.float16: np.float16,
    tl.bfloat16: ml_dtypes.bfloat16,
    tl.float8e4nv: ml_dtypes.float8_e4m3fn,
    tl.float8e5: ml_dtypes.float8_e5m2,
}


def numbers(codes: np.ndarray, kind: tl.dtype) -> np.ndarray:
    """Return the numbers behind an array of the interpreter."""
    return codes.view(KINDS[kind]).astype(np.float64)


def converted(
    codes: np.ndarray, kind: tl.dtype, wanted: tl.dtype, rounding_mode: object
) -> np.ndarray:
    """Return codes of another format, rounded to nearest even."""
    rounded = codes.view(KINDS[kind]).astype(np.float32).astype(KINDS[wanted])
    return rounded.view(f"u{rounded.dtype.itemsize}")


def dot(
    self: object,
    a: interpreter.TensorHandle,
    b: interpreter.TensorHandle,
    d: interpreter.TensorHandle,
    input_precision: object,
    max_num_imprecise_acc: object,
) -> interpreter.TensorHandle:
    """Return a @ b + d, rounded once."""
    product = numbers(a.data, a.dtype.scalar) @ numbers(b.data, b.dtype.scalar)
    return interpreter.TensorHandle((product + d.data).astype(np.float32), d.dtype.scalar)


def fma(
    self: object,
    x: interpreter.TensorHandle,
    y: interpreter.TensorHandle,
    z: interpreter.TensorHandle,
) -> interpreter.TensorHandle:
    """Return x * y + z of binary32, rounded once: the sum in binary64 is rounded to odd."""
    product, other = x.data.astype(np.float64) * y.data, z.data.astype(np.float64)
    total = product + other
    back = total - product
    error = (product - (total - back)) + (other - back)
    inexact = np.abs(error) > 0
    inward = inexact & ((error < 0) != (total < 0))
    odd = ((total.view(np.int64) - inward) | inexact).view(np.float64)
    return interpreter.TensorHandle(odd.astype(np.float32), z.dtype.scalar)


def cast(
    self: object, src: interpreter.TensorHandle, dst_type: tl.dtype
) -> interpreter.TensorHandle:
    """Return a conversion of numbers, or of integers."""
    kind, wanted = src.dtype.scalar, dst_type.scalar
    if kind in KINDS and wanted in KINDS:
        data = converted(src.data, kind, wanted, None)
        return interpreter.TensorHandle(data.view(interpreter._get_np_dtype(wanted)), wanted)
    return interpreter.TensorHandle(src.data.astype(interpreter._get_np_dtype(wanted)), wanted)


interpreter._convert_float = converted
interpreter.InterpreterBuilder.create_dot = dot
interpreter.InterpreterBuilder.create_fma = fma
interpreter.InterpreterBuilder.cast_impl = cast
