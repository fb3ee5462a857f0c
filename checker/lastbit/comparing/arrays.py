"""Arrays in memory as tensors to compare: numpy, torch on any device, anything with DLPack."""

from __future__ import annotations

from importlib import import_module
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from lastbit.comparing.elements import ELEMENTS, Element
from lastbit.comparing.tensors import Tensor
from lastbit.errors import InputError, Problem
from lastbit.inference.arrays import NATIVE, SHORT, is_torch


def tensor_of(value: Any, name: str) -> Tensor:
    """Return an array as a tensor; a strided or remote one is copied.

    Args:
        value: an array.
        name: what to call it.

    Raises:
        InputError: it is no array, or its elements are no numbers known here.
    """
    codes, kind = _torch_codes(value) if is_torch(value) else _codes(value, name)
    if kind.startswith("complex"):
        kind = f"float{int(kind.removeprefix('complex')) // 2}"
        codes = codes.reshape(*codes.shape, 1).view(np.dtype(f"u{int(kind[5:]) // 8}"))
    element = _element(kind)
    if element is None:
        message = f"`{name}` has elements of type {kind}, which cannot be compared in ulp"
        raise InputError([Problem(message, "Convert it, or give its codes and `format`.")])
    flat = np.ascontiguousarray(codes).reshape(-1).view(element.code_type)
    return Tensor(name, element, codes.shape, lambda: _Memory(flat))


class _Memory:
    """A stream of an array's bytes, which `readinto` copies once."""

    def __init__(self, flat: NDArray[Any]) -> None:
        self._rest = memoryview(cast(Any, flat)).cast("B") if flat.size else memoryview(b"")

    def readinto(self, buffer: memoryview) -> int:
        part = self._rest[: len(buffer)]
        buffer[: len(part)] = part
        self._rest = self._rest[len(part) :]
        return len(part)

    def close(self) -> None:
        self._rest.release()


def _element(kind: str) -> Element | None:
    return ELEMENTS.get(SHORT.get(kind, kind))


def _codes(value: Any, name: str) -> tuple[NDArray[Any], str]:
    if isinstance(value, np.ndarray | np.generic | int | float | bool):
        array = np.asarray(value)
    elif hasattr(value, "__dlpack__"):
        array = np.from_dlpack(value)
    else:
        message = f"`{name}` is a {type(value).__name__}, no array"
        raise InputError([Problem(message, "Give arrays of numpy, torch, or with DLPack.")])
    if array.dtype.byteorder == ">":
        array = array.astype(array.dtype.newbyteorder("="))
    if array.dtype.kind == "O" or array.dtype.itemsize not in (1, 2, 4, 8, 16):
        return array, str(array.dtype)
    return array, array.dtype.name


def _torch_codes(tensor: Any) -> tuple[NDArray[Any], str]:
    torch = import_module("torch")
    kind = str(tensor.dtype).removeprefix("torch.")
    tensor = tensor.detach().cpu().resolve_conj().resolve_neg().contiguous()
    if kind in NATIVE or not tensor.dtype.is_floating_point:
        return tensor.numpy(), kind
    words = {1: torch.uint8, 2: torch.int16}.get(tensor.element_size())
    return (tensor if words is None else tensor.view(words)).numpy(), kind
