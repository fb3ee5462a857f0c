"""Tensors as codes and numbers of a format."""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from lastbit.formats import FORMATS, Format
from lastbit.inference.arrays import SHORT, canonical_codes, plain_array
from lastbit.round_array import Codes, code_type, decode_array

Tensor: TypeAlias = Any  # of torch, which is imported when it is needed
Floats = NDArray[np.float64]


def format_of_tensor(tensor: Tensor) -> Format | None:
    """Return the format of a tensor's elements; None for what is no floating-point number."""
    short = SHORT.get(str(tensor.dtype).removeprefix("torch."))
    if short is None or FORMATS[short].kind != "float":
        return None
    return FORMATS[short]


def codes_of_tensor(tensor: Tensor) -> Codes:
    """Return the codes of a tensor of floating-point numbers; all NaN have the same one."""
    fmt = format_of_tensor(tensor)
    found = plain_array(tensor)
    assert fmt is not None
    assert found is not None
    array, held = found
    codes = array if held is not None else np.ascontiguousarray(array).view(code_type(fmt))
    return canonical_codes(codes, fmt)


def values_of_tensor(tensor: Tensor) -> Floats:
    """Return the elements of a tensor of floating-point numbers, which binary64 holds."""
    fmt = format_of_tensor(tensor)
    assert fmt is not None
    return decode_array(codes_of_tensor(tensor), fmt)


def as_integers(tensor: Tensor) -> Tensor:
    """Return a tensor's codes as integers of torch that share its memory."""
    import torch

    kinds = {1: torch.uint8, 2: torch.int16, 4: torch.int32, 8: torch.int64}
    return tensor.view(kinds[tensor.element_size()])


def indexed(tensor: Tensor, index: Any) -> Tensor:
    """Return some elements of a tensor; torch indexes no formats of 8 bits itself."""
    return as_integers(tensor)[index].contiguous().view(tensor.dtype)
