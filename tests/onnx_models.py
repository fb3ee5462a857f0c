"""Small ONNX models for tests, and their results: lastbit's, ONNX Runtime's, onnx.reference's."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import helper, numpy_helper

from lastbit.importers.onnx import read_onnx
from lastbit.importers.onnx.observing import made_of_sizes
from lastbit.interpret.array import ArrayDomain, values_of
from lastbit.interpret.evaluate import results
from lastbit.interpret.policy import Policy

Array = NDArray[Any]
TYPES = {
    "i8": onnx.TensorProto.INT8,
    "u8": onnx.TensorProto.UINT8,
    "f32": onnx.TensorProto.FLOAT,
    "f16": onnx.TensorProto.FLOAT16,
    "bf16": onnx.TensorProto.BFLOAT16,
    "i64": onnx.TensorProto.INT64,
    "bool": onnx.TensorProto.BOOL,
}
_NODE = re.compile(r"(?P<gives>[^=]+)=\s*(?:(?P<domain>[\w.]+)::)?(?P<op>\w+)\((?P<reads>[^)]*)\)")


def node(text: str, **attributes: Any) -> onnx.NodeProto:
    """Return a node from `y = Add(x, c)`, or `y = com.microsoft::QuickGelu(x)`."""
    match = _NODE.fullmatch(text)
    assert match
    names = [[n.strip() for n in match[part].split(",")] for part in ("reads", "gives")]
    reads = [] if names[0] == [""] else names[0]
    domain = match["domain"] or ""
    return helper.make_node(match["op"], reads, names[1], names[1][0], domain=domain, **attributes)


def value(text: str) -> onnx.ValueInfoProto:
    """Return an input or a result from `x: f16[M, 4]`."""
    name, _, rest = text.partition(":")
    kind, _, dims = rest.strip().rstrip("]").partition("[")
    sizes = [int(d) if d.strip().isdigit() else d.strip() for d in dims.split(",") if d.strip()]
    return helper.make_tensor_value_info(name.strip(), TYPES[kind], sizes)


def model(
    nodes: Sequence[onnx.NodeProto],
    inputs: Sequence[str],
    outputs: Sequence[str],
    weights: Mapping[str, Array] | None = None,
    opset: int = 23,
    functions: Sequence[onnx.FunctionProto] = (),
    domains: Sequence[str] = ("com.microsoft",),
) -> onnx.ModelProto:
    """Return a model; nothing of it is checked."""
    graph = helper.make_graph(
        list(nodes),
        "test",
        [value(text) for text in inputs],
        [value(text) for text in outputs],
        [numpy_helper.from_array(np.asarray(w, order="C"), n) for n, w in (weights or {}).items()],
    )
    opsets = [helper.make_opsetid("", opset), *(helper.make_opsetid(d, 1) for d in domains)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=10, functions=list(functions))


def saved(folder: Path, made: onnx.ModelProto, name: str = "model.onnx") -> str:
    """Write a model, and return its path."""
    path = folder / name
    path.write_bytes(made.SerializeToString())
    return str(path)


def evaluated(
    path: str, inputs: Mapping[str, Array], sizes: Mapping[str, int] | None = None
) -> dict[str, Array]:
    """Return the results that lastbit computes, as float64 arrays, by their names in the file."""
    imported = read_onnx(path)
    names = {origin.original: name for name, origin in imported.origins.items()}
    given = {names[name]: np.asarray(x, np.float64) for name, x in inputs.items()}
    tensors = {w.name: numpy_helper.to_array(w) for w in onnx.load(path).graph.initializer}
    for name, original in imported.weights.items():
        given[name] = np.asarray(tensors[original], np.float64)
    for st in imported.program.statements:
        if st.expr is None and st.name not in given:
            array = made_of_sizes(st.name, [dim.evaluate(sizes or {}) for dim in st.dims or ()])
            assert array is not None
            given[st.name] = array
    graph = imported.program.bind({**dict.fromkeys(imported.symbols, 3), **(sizes or {})})
    found = results(graph, ArrayDomain(given), Policy.BITS)
    originals = {name: origin.original for name, origin in imported.origins.items()}
    return {originals[name]: values_of(x) for name, x in found.items()}


def expected(path: str, inputs: Mapping[str, Array]) -> dict[str, Array]:
    """Return the results of ONNX Runtime, nothing rewritten."""
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.log_severity_level = 4
    session = onnxruntime.InferenceSession(path, options, ["CPUExecutionProvider"])
    names = [output.name for output in session.get_outputs()]
    return dict(zip(names, session.run(None, dict(inputs)), strict=True))


def referenced(path: str, inputs: Mapping[str, Array]) -> dict[str, Array]:
    """Return the results of onnx.reference, ONNX's own definition in numpy."""
    from onnx.reference import ReferenceEvaluator

    made = onnx.load(path)
    found = ReferenceEvaluator(made).run(None, dict(inputs))
    return {v.name: x for v, x in zip(made.graph.output, found, strict=True)}


def whole_numbers(shape: Sequence[int], dtype: Any, seed: int = 0, most: int = 4) -> Array:
    """Return small whole numbers: sums of their products are exact in any order."""
    return np.random.default_rng(seed).integers(-most, most + 1, shape).astype(dtype)


def normals(shape: Sequence[int], dtype: Any, seed: int = 0) -> Array:
    """Return numbers drawn from normal(0, 1)."""
    return np.random.default_rng(seed).normal(0, 1, shape).astype(dtype)


def ulps(a: Array, b: Array) -> int:
    """Return the greatest distance of two arrays of one float type, in ulp of it."""
    kind = {2: np.int16, 4: np.int32, 8: np.int64}[b.dtype.itemsize]
    pair = []
    for x in (a.astype(b.dtype), b):
        bits = np.ascontiguousarray(x).view(kind).astype(np.int64)
        least = np.int64(np.iinfo(kind).min)
        pair.append(np.where(bits < 0, least - bits, bits))
    return int(np.abs(pair[0] - pair[1]).max()) if pair[0].size else 0
