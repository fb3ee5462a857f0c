"""The header of a safetensors file: which tensors it holds, and where their bytes lie.

The file begins with 8 bytes that hold the length of the header, little-endian. The header is JSON:
for each tensor its type, its shape and where its bytes begin and end, counted from the end of the
header. The bytes follow, little-endian and row by row.
"""

from __future__ import annotations

import json
import math
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from lastbit.errors import did_you_mean

MOST_HEADER: Final = 1 << 26  # bytes
TYPES: Final[Mapping[str, tuple[str, int]]] = {
    "F64": ("f64", 8), "F32": ("f32", 4), "F16": ("f16", 2), "BF16": ("bf16", 2),
    "F8_E4M3": ("e4m3fn", 1), "F8_E5M2": ("e5m2", 1), "F8_E8M0": ("e8m0", 1),
    "F8_E4M3FNUZ": ("e4m3fnuz", 1), "F8_E5M2FNUZ": ("e5m2fnuz", 1),
    "I64": ("int64", 8), "I32": ("int32", 4), "I16": ("int16", 2), "I8": ("int8", 1),
    "U64": ("uint64", 8), "U32": ("uint32", 4), "U16": ("uint16", 2), "U8": ("uint8", 1),
    "BOOL": ("bool", 1),
}  # fmt: skip
"""The short name of each type that a file may name, and the bytes of an element."""


@dataclass(frozen=True, slots=True)
class Entry:
    """A tensor of a file, as its header states it.

    Attributes:
        name: of the tensor.
        type: of its elements, as the file names it.
        shape: sizes.
        start: where its bytes begin behind the header.
        end: where they end.
        header: bytes in front of all tensors.
        content: bytes behind the header.
    """

    name: str
    type: str
    shape: tuple[int, ...]
    start: int
    end: int
    header: int
    content: int

    @property
    def offset(self) -> int:
        """Where its bytes begin in the file."""
        return self.header + self.start

    def element(self) -> str:
        """Return the short name of its elements' type.

        Raises:
            ValueError: the type is not known, or the bytes are too few or too many for the shape.
        """
        if self.type not in TYPES:
            allowed = did_you_mean(self.type, TYPES)
            raise ValueError(
                f"the elements of {self.name!r} are {self.type}, unknown here. {allowed}"
            )
        short, width = TYPES[self.type]
        if math.prod(self.shape) * width != self.end - self.start:
            stated = f"{self.type}{list(self.shape)}"
            text = f"{self.name!r} has bytes {self.start} to {self.end}, which is not {stated}"
            raise ValueError(text)
        if self.end > self.content:
            text = f"{self.name!r} is cut off: it ends at byte {self.end} of {self.content}"
            raise ValueError(text)
        return short


def read_header(path: str | Path) -> dict[str, Entry]:
    """Return the tensors of a file by name; their types and sizes are not judged yet.

    Raises:
        OSError: the file cannot be read.
        ValueError: it is no safetensors file.
    """
    whole = os.path.getsize(path)
    with Path(path).open("rb") as stream:
        length = int.from_bytes(stream.read(8), "little")
        if length > MOST_HEADER:
            raise ValueError(f"its header has {length} bytes")
        text = stream.read(length)
    if len(text) < length or whole < 8:
        raise ValueError(f"its header is cut off, after {len(text)} of {length} bytes")
    try:
        header = json.loads(text)
    except (ValueError, RecursionError):
        raise ValueError("its header is no JSON") from None
    if not isinstance(header, dict):
        raise ValueError("its header is no object")
    header.pop("__metadata__", None)
    begin = 8 + length
    return {name: _entry(name, entry, begin, whole - begin) for name, entry in header.items()}


def _entry(name: str, entry: Any, header: int, content: int) -> Entry:
    match entry:
        case {
            "dtype": str(kind),
            "shape": [*sizes],
            "data_offsets": [int(start), int(end)],
        } if all(type(size) is int and size >= 0 for size in sizes) and 0 <= start <= end:
            return Entry(name, kind, tuple(sizes), start, end, header, content)
    raise ValueError(f"the entry of {name!r} has another form")
