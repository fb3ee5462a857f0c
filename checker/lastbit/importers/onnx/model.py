"""An ONNX model as the importer needs it: records; weights by name and shape only."""

from __future__ import annotations

import mmap
import os
import stat
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from lastbit.errors import InputError, Place, Problem
from lastbit.importers.onnx.library import load_onnx

MAKE = "Export the model again, or check it with `onnx.checker.check_model`."
MOST_RANK = 32
MAX_SIZE = 2**48
MOST_PROBLEMS = 20

# The names of element types: lastbit's formats where it has them (onnx.proto3, TensorProto).
TYPES = {
    1: "f32",
    2: "u8",
    3: "i8",
    4: "u16",
    5: "i16",
    6: "i32",
    7: "i64",
    8: "string",
    9: "bool",
    10: "f16",
    11: "f64",
    12: "u32",
    13: "u64",
    14: "complex64",
    15: "complex128",
    16: "bf16",
    17: "e4m3fn",
    18: "e4m3fnuz",
    19: "e5m2",
    20: "e5m2fnuz",
    21: "u4",
    22: "i4",
    23: "e2m1",
    24: "e8m0",
}
NUMBER_OF = {name: number for number, name in TYPES.items()}


@dataclass(frozen=True, slots=True)
class ValueInfo:
    """What a model says of a value.

    Attributes:
        name: as the model has it.
        type: the element type, a name of `TYPES`.
        dims: the size of each axis: a number, a symbol, or None where nothing is said; None as a
            whole: the rank is not known.
    """

    name: str
    type: str
    dims: tuple[int | str | None, ...] | None


@dataclass(frozen=True, slots=True, eq=False)
class Weight:
    """An initializer.

    Attributes:
        info: its type and shape.
        tensor: the TensorProto, with its data where that is small.
        span: where its raw data stands in the file, if it was left out.
        lacking: a digest of its typed data, if that was left out.
        sparse: the SparseTensorProto, if it is one; `tensor` is then what is not zero.
    """

    info: ValueInfo
    tensor: Any
    span: tuple[int, int] | None = None
    lacking: bytes = b""
    sparse: Any = None


@dataclass(frozen=True, slots=True, eq=False)
class Node:
    """One operator of a graph.

    Attributes:
        domain: of the operator; "" is that of ONNX itself.
        op: the operator.
        name: the node's own name, which may be empty.
        reads: names of the values read; "" is one that is left out.
        gives: names of the results; "" is one that nobody asks for.
        proto: the NodeProto.
        place: in the source from which the model was exported, where that is known; else the file.
    """

    domain: str
    op: str
    name: str
    reads: tuple[str, ...]
    gives: tuple[str, ...]
    proto: Any
    place: Place

    @property
    def label(self) -> str:
        """Name the node in messages."""
        shown = self.name or next(filter(None, self.gives), "")
        return f"{self.op} `{printable(shown)}`"


@dataclass(frozen=True, slots=True, eq=False)
class Model:
    """A model that was read.

    Attributes:
        file: as the user wrote it.
        nodes: in an order in which each reads earlier values only.
        inputs: what is given from outside; initializers are not among them.
        outputs: the results.
        weights: initializers by name.
        infos: what the model says of intermediate values, by name.
        opsets: version by domain.
        functions: functions of the model by (domain, name).
        proto: the ModelProto, without large data of weights.
    """

    file: str
    nodes: tuple[Node, ...]
    inputs: tuple[ValueInfo, ...]
    outputs: tuple[ValueInfo, ...]
    weights: Mapping[str, Weight]
    infos: Mapping[str, ValueInfo] = field(default_factory=dict)
    opsets: Mapping[str, int] = field(default_factory=dict)
    functions: Mapping[tuple[str, str], Any] = field(default_factory=dict)
    proto: Any = None

    def inferred(self) -> dict[str, ValueInfo]:
        """Return what onnx infers of the shapes and types of values; nothing where it fails."""
        try:
            graph = load_onnx(self.file).shape_inference.infer_shapes(self.proto).graph
        except Exception:  # what it cannot infer is not known
            return {}
        found = (info_of(value) for value in graph.value_info)
        return {info.name: info for info in found if info.type and info.dims is not None}


def text_of(value: str | bytes) -> str:
    """Return a text of a message; protobuf gives bytes for what is no UTF-8."""
    return value if isinstance(value, str) else value.decode("utf-8", "replace")


def printable(text: str) -> str:
    """Return a name for messages: short, without characters that a terminal acts on."""
    shown = "".join(c if c.isprintable() else "?" for c in text[:120])
    return f"{shown}..." if len(text) > 120 else shown


def raw_data(model: Model, weight: Weight) -> bytes | None:
    """Return the bytes of a weight that stand in the file itself; None where none do.

    Raises:
        InputError: the file cannot be read any more.
    """
    if weight.span is None:
        return bytes(weight.tensor.raw_data) or None
    start, end = weight.span
    with mapped(model.file) as data:
        return bytes(data[start:end])


class mapped:  # noqa: N801  a context manager, used as a function
    """The bytes of a file, mapped into memory.

    Raises:
        InputError: it is no file, or cannot be read.
    """

    def __init__(self, file: str) -> None:
        self.file = file

    def __enter__(self) -> mmap.mmap:
        try:
            with open(self.file, "rb", opener=_nonblocking) as stream:
                found = os.fstat(stream.fileno())
                if not stat.S_ISREG(found.st_mode):
                    raise error_about(self.file, "this is no file", "Name an .onnx file.")
                if not found.st_size:
                    raise error_about(self.file, "the file is empty", MAKE)
                self.data = mmap.mmap(stream.fileno(), 0, access=mmap.ACCESS_READ)
        except OSError as error:
            raise error_about(self.file, f"cannot be read: {error.strerror}", "") from None
        return self.data

    def __exit__(self, *_: object) -> None:
        self.data.close()


def _nonblocking(path: str, flags: int) -> int:
    return os.open(path, flags | os.O_NONBLOCK)  # a pipe is refused rather than waited for


def error_about(file: str, message: str, remedy: str) -> InputError:
    """Return an error about a file."""
    return InputError([Problem(message, remedy, Place(file))])


def info_of(value: Any) -> ValueInfo:
    """Return what a ValueInfoProto says."""
    kind = value.type.WhichOneof("value")
    if kind != "tensor_type":
        return ValueInfo(text_of(value.name), kind or "", None)
    tensor = value.type.tensor_type
    dims = tuple(_dim(dim) for dim in tensor.shape.dim) if tensor.HasField("shape") else None
    return ValueInfo(text_of(value.name), TYPES.get(tensor.elem_type, ""), dims)


def _dim(dim: Any) -> int | str | None:
    which = dim.WhichOneof("value")
    if which == "dim_value":
        return int(dim.dim_value)
    return text_of(dim.dim_param) if which == "dim_param" and dim.dim_param else None


def domain_of(domain: str | bytes) -> str:
    """Return a domain; that of ONNX itself is empty."""
    text = text_of(domain)
    return "" if text == "ai.onnx" else text
