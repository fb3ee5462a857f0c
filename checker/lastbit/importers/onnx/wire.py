"""Read an ONNX file without its weights: the wire format of protobuf, as far as that needs it.

A model may hold gigabytes of weights between its nodes. The bytes of the file are walked once,
without copying; large data of initializers is left out, its place remembered, and what remains is
a small model that `onnx` parses.

Source: "Protocol Buffers: Encoding" (protobuf.dev/programming-guides/encoding), and the field
numbers of onnx.proto3 (ONNX 1.14 to 1.23: ModelProto.graph 7; GraphProto.node 1, initializer 5,
sparse_initializer 15; TensorProto.name 8, float_data 4, int32_data 5, string_data 6, int64_data 7,
raw_data 9, double_data 10, uint64_data 11).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from hashlib import blake2b

MOST_NODES = 100_000
MOST_WEIGHTS = 100_000
MOST_BYTES = 64 * 2**20  # without large weights
MOST_FIELDS = 4_000_000  # that are walked
LARGE = 4096  # bytes of an initializer's data that are left out

_GRAPH = 7
_NODE, _INITIALIZER, _SPARSE = 1, 5, 15
_NAME, _RAW = 8, 9
_DATA = (4, 5, 6, 7, _RAW, 10, 11)
_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5


class WireError(ValueError):
    """The bytes are no protobuf message, or one that is too large; the text says which."""


@dataclass(slots=True)
class Stripped:
    """A model without large data of initializers.

    Attributes:
        model: the bytes that remain, a ModelProto.
        spans: where the raw data of an initializer stands that was left out, by name: (start, end).
        lacking: a digest of the data that was left out and is not raw, by initializer.
        nodes: the number of nodes of the graph.
    """

    model: bytes = b""
    spans: dict[str, tuple[int, int]] = field(default_factory=dict)
    lacking: dict[str, bytes] = field(default_factory=dict)
    nodes: int = 0


@dataclass(slots=True)
class _Budget:
    weights: int = 0
    size: int = 0
    fields: int = 0

    def keep(self, size: int) -> None:
        self.size += size
        if self.size > MOST_BYTES:
            raise WireError(f"it holds more than {MOST_BYTES >> 20} MiB beside its weights")

    def field(self) -> None:
        self.fields += 1
        if self.fields > MOST_FIELDS:
            raise WireError(f"it has more than {MOST_FIELDS} fields")


def strip(data: memoryview) -> Stripped:
    """Return a model without large data of initializers.

    Args:
        data: the bytes of the file.

    Raises:
        WireError: they are no message of protobuf, or the graph is too large.
    """
    out, budget = Stripped(), _Budget()
    parts: list[bytes] = []
    for number, start, body, end in _fields(data, 0, len(data), budget):
        if number == _GRAPH:
            graph = _graph(data, body, end, out, budget)
            parts += (_tag(_GRAPH), _varint(len(graph)), graph)
        else:
            budget.keep(end - start)
            parts.append(bytes(data[start:end]))
    out.model = b"".join(parts)
    return out


def _graph(data: memoryview, start: int, end: int, out: Stripped, budget: _Budget) -> bytes:
    parts: list[bytes] = []
    for number, at, body, stop in _fields(data, start, end, budget):
        if number == _NODE:
            out.nodes += 1
            if out.nodes > MOST_NODES:
                raise WireError(f"it has more than {MOST_NODES} nodes")
        if number in (_INITIALIZER, _SPARSE):
            budget.weights += 1
            if budget.weights > MOST_WEIGHTS:
                raise WireError(f"it has more than {MOST_WEIGHTS} initializers")
        if number == _INITIALIZER and stop - at > LARGE:
            tensor = _tensor(data, body, stop, out, budget)
            budget.keep(len(tensor))
            parts += (_tag(_INITIALIZER), _varint(len(tensor)), tensor)
        else:
            budget.keep(stop - at)
            parts.append(bytes(data[at:stop]))
    return b"".join(parts)


def _tensor(data: memoryview, start: int, end: int, out: Stripped, budget: _Budget) -> bytes:
    """Return an initializer without its data."""
    parts: list[bytes] = []
    name, raw, other = "", None, None
    for number, at, body, stop in _fields(data, start, end, budget):
        if number == _RAW:
            raw = body, stop
        elif number in _DATA:
            other = other or blake2b(digest_size=16)
            other.update(data[at:stop])
        else:
            parts.append(bytes(data[at:stop]))
            if number == _NAME:
                name = str(data[body:stop], "utf-8", "replace")
    if raw is not None:
        out.spans[name] = raw
    elif other is not None:
        out.lacking[name] = other.digest()
    return b"".join(parts)


def _fields(
    data: memoryview, at: int, end: int, budget: _Budget
) -> Iterator[tuple[int, int, int, int]]:
    """Yield the fields of a message: number, start, start of the content, and end."""
    while at < end:
        budget.field()
        start = at
        key, at = _read_varint(data, at, end)
        kind = key & 7
        body = at
        if kind == _VARINT:
            _, at = _read_varint(data, at, end)
        elif kind == _BYTES:
            size, body = _read_varint(data, at, end)
            at = body + size
        elif kind == _FIXED64:
            at += 8
        elif kind == _FIXED32:
            at += 4
        else:
            raise WireError(f"byte {start} begins no field of protobuf")
        if key < 8:
            raise WireError(f"byte {start} begins no field of protobuf")
        if at > end:
            raise WireError(f"it ends within the field that begins at byte {start}")
        yield key >> 3, start, body, at


def _read_varint(data: memoryview, at: int, end: int) -> tuple[int, int]:
    value = shift = 0
    for i in range(at, min(end, at + 10)):
        byte = data[i]
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, i + 1
        shift += 7
    if end - at < 10:
        raise WireError(f"it ends within the number that begins at byte {at}")
    raise WireError(f"byte {at} begins no number of protobuf")


def _varint(value: int) -> bytes:
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def _tag(number: int) -> bytes:
    return _varint(number << 3 | _BYTES)
