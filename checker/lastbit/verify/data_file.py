"""Values of an input from a file: numpy's `.npy`, or safetensors.

safetensors: 8 bytes with the length of the header, the header as JSON (for each tensor its dtype,
its shape and where its bytes lie), then the bytes, little-endian and row by row.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import numpy as np

from lastbit.errors import LastbitError, did_you_mean
from lastbit.formats import format_of
from lastbit.graph import Input
from lastbit.interpret.intervals import Floats
from lastbit.plan_model import DataFile
from lastbit.round_array import decode_array, round_array
from lastbit.rounding import Rounding

PLAIN: Final = {"F64": "<f8", "F32": "<f4", "F16": "<f2", "I32": "<i4", "I8": "<i1", "U8": "<u1"}
CODED: Final = {"BF16": "bf16", "F8_E4M3": "e4m3fn", "F8_E5M2": "e5m2"}
MOST_HEADER: Final = 1 << 26


class DrawError(LastbitError):
    """An input that has no values; the text says why."""


def values_in(spec: DataFile, node: Input) -> Floats:
    """Return the values of an input; the first ones along an axis that asks for fewer.

    Raises:
        DrawError: the file holds no such tensor, another shape, or what is no value of the
            input's format.
    """
    try:
        found = _npy(spec.path) if spec.path.suffix == ".npy" else _safetensors(spec, node.name)
    except (OSError, ValueError) as error:
        raise DrawError(f"{spec} cannot be read: {error}") from None
    fits = len(found.shape) == len(node.shape) and all(
        have >= want for have, want in zip(found.shape, node.shape, strict=True)
    )
    if not fits:
        shapes = f"{list(found.shape)} in {spec}, not {list(node.shape)}"
        raise DrawError(f"`{node.name}` has the shape {shapes}")
    part = found[tuple(slice(0, size) for size in node.shape)]
    held = round_array(part, Rounding.of(node.format, overflow="saturate"))
    wrong = ~((held == part) | (np.isnan(held) & np.isnan(part)))
    if wrong.any():
        value = float(part[wrong][0])
        raise DrawError(f"`{node.name}` in {spec} holds {value}, which is no {node.format.short}")
    return held


def _npy(path: Path) -> Floats:
    found = np.load(path, allow_pickle=False)
    if found.dtype.kind not in "fiu":
        raise ValueError(f"its elements are {found.dtype}, no numbers")
    return np.asarray(found, np.float64)


def _safetensors(spec: DataFile, name: str) -> Floats:
    with spec.path.open("rb") as stream:
        length = int.from_bytes(stream.read(8), "little")
        if length > MOST_HEADER:
            raise ValueError(f"its header has {length} bytes")
        header = json.loads(stream.read(length))
        if not isinstance(header, dict):
            raise ValueError("its header is no object")
        tensors = {key: value for key, value in header.items() if key != "__metadata__"}
        if name not in tensors:
            raise DrawError(f"{spec} has no tensor {name!r}. {did_you_mean(name, tensors)}")
        dtype, shape, start, end = _entry(tensors[name])
        stream.seek(8 + length + start)
        content = stream.read(end - start)
    if dtype in PLAIN:
        found = np.frombuffer(content, PLAIN[dtype]).astype(np.float64)
    elif dtype in CODED:
        fmt = format_of(CODED[dtype])
        codes = np.frombuffer(content, f"<u{fmt.bits // 8}")
        found = decode_array(codes, fmt)
    else:
        raise ValueError(f"its elements are {dtype}. {did_you_mean(dtype, [*PLAIN, *CODED])}")
    if found.size != math.prod(shape):
        raise ValueError(f"{name!r} has {found.size} elements for {list(shape)}")
    return np.asarray(found.reshape(shape))


def _entry(entry: Any) -> tuple[str, tuple[int, ...], int, int]:
    match entry:
        case Mapping() if {"dtype", "shape", "data_offsets"} <= entry.keys():
            start, end = (int(offset) for offset in entry["data_offsets"])
            shape = tuple(int(size) for size in entry["shape"])
            if 0 <= start <= end and min(shape, default=0) >= 0:
                return str(entry["dtype"]), shape, start, end
    raise ValueError("an entry of its header has another form")
