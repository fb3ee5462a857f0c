"""Values of an input from a file: numpy's `.npy`, or safetensors."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import numpy as np

from lastbit.errors import LastbitError, did_you_mean
from lastbit.formats import format_of
from lastbit.graph import Input
from lastbit.interpret.intervals import Floats
from lastbit.plan_model import DataFile
from lastbit.round_array import decode_array, round_array
from lastbit.rounding import Rounding
from lastbit.safetensors_header import read_header

PLAIN: Final = {
    "f64": "<f8", "f32": "<f4", "f16": "<f2", "int32": "<i4", "int8": "<i1", "uint8": "<u1",
}  # fmt: skip
CODED: Final = ("bf16", "e4m3fn", "e5m2")


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
    entries = read_header(spec.path)
    if name not in entries:
        raise DrawError(f"{spec} has no tensor {name!r}. {did_you_mean(name, entries)}")
    entry = entries[name]
    kind = entry.element()
    with spec.path.open("rb") as stream:
        stream.seek(entry.offset)
        content = stream.read(entry.end - entry.start)
    if kind in PLAIN:
        found = np.frombuffer(content, PLAIN[kind]).astype(np.float64)
    elif kind in CODED:
        fmt = format_of(kind)
        found = decode_array(np.frombuffer(content, f"<u{fmt.bits // 8}"), fmt)
    else:
        raise ValueError(f"its elements are {entry.type}. {did_you_mean(kind, [*PLAIN, *CODED])}")
    return np.asarray(found.reshape(entry.shape))
