"""What a file holds of a weight, as a text that is equal only where the numbers are.

Two models may give one name to different weights. Their bytes tell them apart: type, shape and
data, little-endian as `raw_data` has them (onnx.proto3, TensorProto), so that NaN and -0.0 count
too. Data in another file is not opened: there the text names the file and the part of it.
"""

from __future__ import annotations

import os
import struct
from collections.abc import Callable, Iterator, Sequence
from hashlib import blake2b
from typing import Any

from lastbit.importers.onnx.model import TYPES, Model, Weight, mapped, text_of

Content = Callable[[], str]

EXTERNAL = "in another file: "
_CHUNK = 2**24  # bytes that are hashed at once
# How a number of a typed field is packed, for struct, and the field; others are in int32_data.
_FIELDS = {
    "f32": ("f", "float_data"),
    "complex64": ("f", "float_data"),
    "f64": ("d", "double_data"),
    "complex128": ("d", "double_data"),
    "i64": ("q", "int64_data"),
    "u32": ("I", "uint64_data"),
    "u64": ("Q", "uint64_data"),
}
_IN_INT32 = {"i32": "I", "f16": "H", "bf16": "H", "i16": "H", "u16": "H"}  # others: one byte
_BITS = {"I": 32, "H": 16, "B": 8}


def weight_content(model: Model, weight: Weight) -> str:
    """Return a text for the numbers of an initializer.

    Raises:
        InputError: the file cannot be read any more.
    """
    if weight.sparse is not None:
        serialized = weight.sparse.SerializeToString(deterministic=True)
        where = external_places(model.file, (weight.sparse.values, weight.sparse.indices))
        return _text(weight.info.type, weight.info.dims or (), [serialized], where)
    if weight.span is None:
        return tensor_content(model.file, weight.tensor, weight.lacking)
    start, end = weight.span
    with mapped(model.file) as data, memoryview(data) as view, view[start:end] as part:
        chunks = (part[at : at + _CHUNK] for at in range(0, len(part), _CHUNK))
        return _text(weight.info.type, weight.tensor.dims, chunks)


def tensor_content(file: str, tensor: Any, lacking: bytes = b"") -> str:
    """Return a text for the numbers of a tensor that is held in memory.

    Args:
        file: of the model.
        tensor: a TensorProto.
        lacking: a digest of its typed data, where that was left out.
    """
    dtype = TYPES.get(tensor.data_type, str(tensor.data_type))
    places = external_places(file, (tensor,))
    data = lacking or bytes(tensor.raw_data) or _typed(tensor, dtype)
    return _text(dtype, tensor.dims, [data], places)


def bytes_content(dtype: str, dims: Sequence[object], data: bytes) -> str:
    """Return a text for numbers of a type, little-endian, in the order of `raw_data`."""
    return _text(dtype, dims, [data])


def external_places(file: str, tensors: Sequence[Any]) -> tuple[str, ...]:
    """Return which parts of which files hold the data of tensors."""
    return tuple(place for tensor in tensors for place in _external(file, tensor))


def _external(file: str, tensor: Any) -> Iterator[str]:
    if tensor.external_data:
        entries = {text_of(entry.key): text_of(entry.value) for entry in tensor.external_data}
        folder = os.path.dirname(os.path.realpath(file))
        path = os.path.join(folder, entries.get("location", "").replace("\0", "?"))
        offset, length = entries.get("offset") or "0", entries.get("length", "")
        yield f"{os.path.realpath(path)!r} offset={offset!r} length={length!r}"


def _typed(tensor: Any, dtype: str) -> bytes:
    """Return the data of the typed fields as `raw_data` would have it."""
    if tensor.string_data:
        return b"".join(struct.pack("<Q", len(text)) + text for text in tensor.string_data)
    if dtype in _FIELDS:
        code, name = _FIELDS[dtype]
        found = getattr(tensor, name)
        if code == "I":
            found = [number & 0xFFFFFFFF for number in found]
        return struct.pack(f"<{len(found)}{code}", *found)
    code = _IN_INT32.get(dtype, "B")
    bits = [number & ((1 << _BITS[code]) - 1) for number in tensor.int32_data]
    return struct.pack(f"<{len(bits)}{code}", *bits)


def _text(dtype: str, dims: Sequence[object], chunks: Any, places: Sequence[str] = ()) -> str:
    digest = blake2b(digest_size=16)
    for chunk in chunks:
        digest.update(chunk)
    shape = ", ".join(map(str, dims))
    where = f" {EXTERNAL}{'; '.join(places)}" if places else ""
    return f"{dtype}[{shape}] {digest.hexdigest()}{where}"
