"""Run an ONNX model with ONNX Runtime on the CPU: as a whole, and node by node.

Node by node, every operator is a model of its own, so that every value is rounded to the format
that the model gives it. As a whole, ONNX Runtime rewrites the graph first: what differs between
the two is what it dropped, moved or fused.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lastbit.errors import InputError, Place, Problem
from lastbit.importers.onnx.library import load_onnx, load_runtime
from lastbit.importers.onnx.model import Model, Node, ValueInfo, printable
from lastbit.importers.onnx.reading import read_model

Array = NDArray[Any]
Values = dict[str, Array]

DTYPES: dict[str, Any] = {
    "f16": np.float16,
    "f32": np.float32,
    "f64": np.float64,
    "i8": np.int8,
    "u8": np.uint8,
    "i16": np.int16,
    "u16": np.uint16,
    "i32": np.int32,
    "u32": np.uint32,
    "i64": np.int64,
    "u64": np.uint64,
    "bool": np.bool_,
}
LEVELS = {
    "disabled": "ORT_DISABLE_ALL",
    "basic": "ORT_ENABLE_BASIC",
    "extended": "ORT_ENABLE_EXTENDED",
    "layout": "ORT_ENABLE_LAYOUT",  # of 1.23 and later
    "all": "ORT_ENABLE_ALL",
}
MOST_ELEMENTS = 2**28  # of one input
PROVIDERS = ("CPUExecutionProvider",)


def draw_inputs(model: Model, sizes: Mapping[str, int], seed: int) -> Values:
    """Return inputs for a run: floats from normal(0, 1), rounded to their format; else 0 or 1.

    Args:
        model: the model.
        sizes: a size for each symbol; others are 4.
        seed: selects the draw.

    Raises:
        InputError: an input has a type that numpy has not, or no known rank.
    """
    random = np.random.default_rng(seed)
    return {info.name: _draw(model, info, sizes, random) for info in model.inputs}


def _draw(
    model: Model, info: ValueInfo, sizes: Mapping[str, int], random: np.random.Generator
) -> Array:
    name = printable(info.name)
    if info.type not in DTYPES or info.dims is None:
        what = f"the format {info.type}" if info.dims is not None else "no known number of axes"
        remedy = "ONNX Runtime has no CPU kernels for bf16; export the model in f16 or f32."
        raise _error(model, f"the input `{name}` has {what}", remedy)
    shape = tuple(size if isinstance(size, int) else sizes.get(size or "", 4) for size in info.dims)
    count = 1
    for size in shape:
        count *= size
    if count > MOST_ELEMENTS:
        remedy = f"At most {MOST_ELEMENTS} are drawn; give smaller sizes with --symbol."
        raise _error(model, f"the input `{name}` has {count} elements", remedy)
    if info.type in ("f16", "f32", "f64"):
        return random.normal(0.0, 1.0, shape).astype(DTYPES[info.type])
    return random.integers(0, 2, shape).astype(DTYPES[info.type])


def run_whole(
    model: Model, inputs: Mapping[str, Array], level: str = "all", also: Sequence[str] = ()
) -> Values:
    """Run a model as ONNX Runtime rewrites it.

    Args:
        model: the model, whose file is opened again.
        inputs: an array for each input.
        level: how much it rewrites: a word of `LEVELS`.
        also: further values that are wanted. Asking for a value can keep ONNX Runtime from
            rewriting it; in a file that it wrote itself, at level "disabled", it changes nothing.

    Returns:
        the results, and the values of `also`, by name.

    Raises:
        InputError: it cannot be run.
    """
    wanted = list(dict.fromkeys([*(info.name for info in model.outputs), *also]))
    content: Any = model.file
    if also:
        proto = _opened(model)
        known = {value.name for value in proto.graph.output}
        proto.graph.output.extend(_named(name) for name in wanted if name not in known)
        content = proto.SerializeToString()
    found = _session(model, content, LEVELS[level], "the model").run(wanted, dict(inputs))
    return dict(zip(wanted, found, strict=True))


def run_nodes(
    model: Model, inputs: Mapping[str, Array], wanted: Iterable[str] | None = None
) -> Values:
    """Run a model node by node, each operator alone.

    Args:
        model: the model, whose file is opened again.
        inputs: an array for each input.
        wanted: the values that are kept; None: all.

    Raises:
        InputError: a node cannot be run; the text names it.
    """
    numpy_helper = load_onnx(model.file).numpy_helper
    proto = _opened(model)
    values: Values = dict(inputs)
    for tensor in proto.graph.initializer:
        values[tensor.name] = numpy_helper.to_array(tensor)
    keep = None if wanted is None else {*wanted, *(info.name for info in model.outputs)}
    last = {name: number for number, node in enumerate(model.nodes) for name in node.reads}
    for number, node in enumerate(model.nodes):
        values.update(_run_node(model, proto, node, values))
        for name in {*node.reads, *node.gives}:
            if keep is not None and last.get(name, -1) <= number and name not in keep:
                values.pop(name, None)
    return values


def _run_node(model: Model, proto: Any, node: Node, values: Mapping[str, Array]) -> Values:
    onnx = load_onnx(model.file)
    reads = [name for name in dict.fromkeys(node.reads) if name]
    gives = [name for name in node.gives if name]
    inputs = [
        onnx.helper.make_tensor_value_info(
            name, onnx.helper.np_dtype_to_tensor_dtype(values[name].dtype), values[name].shape
        )
        for name in reads
    ]
    graph = onnx.helper.make_graph([node.proto], "node", inputs, [_named(name) for name in gives])
    alone = onnx.helper.make_model(
        graph,
        opset_imports=list(proto.opset_import),
        functions=list(proto.functions),
        ir_version=proto.ir_version,
    )
    session = _session(model, alone.SerializeToString(), LEVELS["disabled"], node.label)
    found = session.run(gives, {name: values[name] for name in reads})
    return dict(zip(gives, found, strict=True))


def _named(name: str) -> Any:
    made = load_onnx().ValueInfoProto()
    made.name = name
    return made


def _session(model: Model, content: Any, level: str, what: str) -> Any:
    runtime = load_runtime()
    options = runtime.SessionOptions()
    options.graph_optimization_level = getattr(runtime.GraphOptimizationLevel, level)
    options.log_severity_level = 4
    options.intra_op_num_threads = 1  # sums are added in one order on every machine
    try:
        return _Session(model, runtime.InferenceSession(content, options, list(PROVIDERS)), what)
    except Exception as error:  # of its own, one class for each status
        raise _failed(model, what, error) from None


class _Session:
    """A session whose failures are errors of lastbit."""

    def __init__(self, model: Model, session: Any, what: str) -> None:
        self.model, self.session, self.what = model, session, what

    def run(self, wanted: list[str], inputs: dict[str, Array]) -> list[Array]:
        """Return the wanted values.

        Raises:
            InputError: ONNX Runtime fails.
        """
        try:
            found: list[Array] = self.session.run(wanted, inputs)
        except Exception as error:
            raise _failed(self.model, self.what, error) from None
        return found


def _opened(model: Model) -> Any:
    """Return the whole model with its weights."""
    read_model(model.file)  # external data outside of its folder is refused
    onnx = load_onnx(model.file)
    try:
        return onnx.load(model.file)
    except Exception as error:
        raise _failed(model, "the model", error) from None


def known_levels() -> list[str]:
    """Return the levels that the installed ONNX Runtime has, the lowest first."""
    known = load_runtime().GraphOptimizationLevel
    return [level for level, name in LEVELS.items() if hasattr(known, name)]


def optimised(model: Model, path: str, level: str = "all") -> None:
    """Write the model that ONNX Runtime makes of another one, to be compared with it.

    Raises:
        InputError: ONNX Runtime cannot read the one, or write the other.
    """
    runtime = load_runtime()
    options = runtime.SessionOptions()
    options.graph_optimization_level = getattr(runtime.GraphOptimizationLevel, LEVELS[level])
    options.log_severity_level = 4
    options.optimized_model_filepath = path
    try:
        runtime.InferenceSession(model.file, options, list(PROVIDERS))
    except Exception as error:
        raise _failed(model, "the model", error) from None


def _failed(model: Model, what: str, error: Exception) -> InputError:
    text = " ".join(str(error).split())[:300]
    return _error(model, f"{what} cannot be run: {printable(text)}", "")


def _error(model: Model, message: str, remedy: str) -> InputError:
    return InputError([Problem(message, remedy, Place(model.file))])
