"""Operators that are known by their names only: what they read, and all else that tells them apart.

Two of them are taken to be one where operator, version, attributes and operands are equal. An
operand that is a value of the program is read by its name; one that is a constant stands in the
parameters with its numbers, so that another axis or another shape is another operator.
"""

from __future__ import annotations

from collections.abc import Iterator
from hashlib import blake2b
from typing import TYPE_CHECKING, Any

from lastbit.importers.imported import Value, is_float
from lastbit.importers.onnx.contents import external_places, weight_content
from lastbit.importers.onnx.library import load_onnx
from lastbit.importers.onnx.model import NUMBER_OF, Node, info_of, printable, text_of

if TYPE_CHECKING:
    from lastbit.importers.onnx.graph import Importer


def operands(importer: Importer, node: Node) -> tuple[list[Value], str]:
    """Return the values that a node reads, each once, and a text of all its operands in order."""
    outer = [name for name in captured(node.proto) if _known(importer, name)]
    reads: dict[str, Value] = {}
    shown = [_operand(importer, name, reads) for name in node.reads]
    shown += [f"{printable(name)}={_operand(importer, name, reads)}" for name in outer]
    return list(reads.values()), f"({', '.join(shown)})"


def _known(importer: Importer, name: str) -> bool:
    return name in importer.operands or name in importer.model.weights


def _operand(importer: Importer, name: str, reads: dict[str, Value]) -> str:
    """Return an operand as a text: the number of a value that is read, or what it holds."""
    if not name:
        return ""
    if _known(importer, name):
        value = importer.value(name)
        if value is not None and value.name in importer.writer.statements:
            reads.setdefault(value.name, value)
            return f"#{list(reads).index(value.name)} {value.dtype}[{', '.join(value.dims)}]"
        found = importer.operand(name)
        if found.numbers is not None:
            return f"{found.kind} {' '.join(map(str, found.numbers))}"
        if found.sizes is not None:
            return f"{found.kind} {' '.join(found.sizes)}"
        if name in importer.model.weights:
            return weight_content(importer.model, importer.model.weights[name])
    return f"{name!r} of {importer.model.file!r}"  # not known: equal in one file only


def parameters(importer: Importer, node: Node) -> str:
    """Return the version, the attributes, those included that have their defaults, and operands.

    Results that nobody asks for count where others follow them.
    """
    texts = [f"version={_version(importer, node)}"]
    found = _attributes(importer, node)
    texts += [f"{name}={found[name]}" for name in sorted(found)]
    asked = [number for number, name in enumerate(node.gives) if name]
    if asked != list(range(len(asked))):
        texts.append(f"results={asked}")
    return f"{', '.join(texts)} of {operands(importer, node)[1]}"


def _schema(importer: Importer, node: Node) -> Any:
    onnx = load_onnx()
    if not onnx.defs.has(node.op, node.domain):
        return None
    version = importer.model.opsets.get(node.domain, 1)
    try:
        return onnx.defs.get_schema(node.op, version, node.domain)
    except Exception:  # of a version that onnx does not know
        return None


def _version(importer: Importer, node: Node) -> int:
    """Return the version of the operators in which this one was last changed."""
    schema = _schema(importer, node)
    return importer.model.opsets.get(node.domain, 1) if schema is None else schema.since_version


def _attributes(importer: Importer, node: Node) -> dict[str, str]:
    schema = _schema(importer, node)
    file = importer.model.file
    found = {
        name: _attribute_text(file, attribute.default_value)
        for name, attribute in ({} if schema is None else schema.attributes).items()
        if attribute.default_value.name
    }
    for given in node.proto.attribute:
        name = text_of(given.name)
        found[name if printable(name) == name else repr(name)] = _attribute_text(file, given)
    return found


def _attribute_text(file: str, attribute: Any) -> str:
    value = load_onnx().helper.get_attribute_value(attribute)
    if isinstance(value, bytes):
        text = value.decode("utf-8", "replace")
        if printable(text) == text and text.encode() == value:
            return text
    if isinstance(value, int | float):
        return repr(value)
    if isinstance(value, list | tuple) and all(isinstance(v, int | float) for v in value):
        return str(list(value))
    digest = blake2b(attribute.SerializeToString(deterministic=True), digest_size=16)
    where = external_places(file, list(_tensors(attribute)))
    return f"{digest.hexdigest()}{''.join(f' {place}' for place in where)}"


def _tensors(attribute: Any) -> Iterator[Any]:
    """Yield the tensors in an attribute, those of its subgraphs included."""
    stack = [attribute]
    while stack:
        one = stack.pop()
        yield from ([one.t] if one.HasField("t") else [])
        yield from one.tensors
        for graph in (*([one.g] if one.HasField("g") else []), *one.graphs):
            yield from graph.initializer
            stack += [inner for node in graph.node for inner in node.attribute]


def captured(proto: Any) -> list[str]:
    """Return the names that the subgraphs of a node read, those of their own values included."""
    found: dict[str, None] = {}
    stack = [a.g for a in proto.attribute if a.HasField("g")]
    stack += [graph for a in proto.attribute for graph in a.graphs]
    while stack:
        graph = stack.pop()
        for node in graph.node:
            found.update(dict.fromkeys(filter(None, map(text_of, node.input))))
            stack += [a.g for a in node.attribute if a.HasField("g")]
            stack += [inner for a in node.attribute for inner in a.graphs]
        found.update(dict.fromkeys(text_of(value.name) for value in graph.output))
    return list(found)


# Operators of ONNX Runtime whose results have the shapes of those of an operator of ONNX: that one,
# the operands that it reads, and the operand whose type the results have.
_SHAPED_LIKE: dict[tuple[str, str], tuple[str, tuple[int, ...], int]] = {
    ("com.microsoft", "FusedConv"): ("Conv", (0, 1), 0),
    ("com.microsoft", "DynamicQuantizeMatMul"): ("MatMul", (0, 1), 0),
    ("com.microsoft", "MatMulIntegerToFloat"): ("MatMulInteger", (0, 1), 2),
    ("com.microsoft", "QLinearAdd"): ("Add", (0, 3), 0),
    ("com.microsoft", "QLinearMul"): ("Mul", (0, 3), 0),
    ("com.microsoft", "QLinearSigmoid"): ("Identity", (0,), 0),
    ("com.microsoft", "QLinearLeakyRelu"): ("Identity", (0,), 0),
    ("com.microsoft", "QLinearSoftmax"): ("Identity", (0,), 0),
    ("com.microsoft", "QLinearGlobalAveragePool"): ("GlobalAveragePool", (0,), 0),
    ("com.microsoft", "QLinearAveragePool"): ("AveragePool", (0,), 0),
    ("com.microsoft", "QLinearConv"): ("ConvInteger", (0, 3), 0),
    ("com.microsoft.nchwc", "Conv"): ("Conv", (0, 1), 0),
    ("com.microsoft.nchwc", "MaxPool"): ("MaxPool", (0,), 0),
    ("com.microsoft.nchwc", "AveragePool"): ("AveragePool", (0,), 0),
}


def own_results(importer: Importer, node: Node) -> dict[str, tuple[str, tuple[str, ...]]]:
    """Return the type and sizes of the results of a node of ONNX, from those of what it reads.

    The node is asked alone, so that sizes stay the expressions that they are here; those that a
    file states may be symbols that nothing else has. A result of which onnx cannot tell every size
    is left out.
    """
    onnx = load_onnx()
    like, places, typed = _SHAPED_LIKE.get((node.domain, node.op), ("", (), 0))
    last = importer.attribute(node, "channels_last", 0) if like else 0
    if like and max((*places, typed)) >= len(node.reads):
        return {}
    if not (like or onnx.defs.has(node.op, node.domain)) or captured(node.proto):
        return {}
    proto = onnx.NodeProto()
    proto.CopyFrom(node.proto)
    del proto.input[:], proto.output[:]
    proto.input.extend([node.reads[i] for i in places] if like else node.reads)
    proto.output.extend(node.gives)
    if like:
        proto.op_type, proto.domain = like, ""
        kept = onnx.defs.get_schema(like, importer.model.opsets.get("", 1), "").attributes
        for attribute in [a for a in proto.attribute if a.name not in kept]:
            proto.attribute.remove(attribute)
    make = onnx.helper
    inputs, constants = [], []
    sizes: set[str] = set()
    for name in dict.fromkeys(filter(None, proto.input)):
        found = importer.operand(name)
        if found.numbers is not None and found.shape is not None and found.dtype in NUMBER_OF:
            number = float if is_float(found.dtype) else int
            numbers = [number(n) for n in found.numbers]
            kind = NUMBER_OF[found.dtype]
            constants.append(make.make_tensor(name, kind, found.shape, numbers))
            continue
        value = importer.value(name)
        if value is None or value.dtype not in NUMBER_OF:
            return {}
        shape = value.dims
        if last and name == proto.input[0]:  # the operator of ONNX has the channels second
            shape = (shape[0], shape[-1], *shape[1:-1])
        dims = [int(size) if size.isdigit() else size for size in shape]
        sizes.update(shape)
        inputs.append(make.make_tensor_value_info(name, NUMBER_OF[value.dtype], dims))
    results = [make.make_empty_tensor_value_info(name) for name in node.gives if name]
    graph = make.make_graph([proto], "node", inputs, results, constants)
    opsets = [make.make_opsetid(domain, v) for domain, v in importer.model.opsets.items()]
    alone = make.make_model(graph, opset_imports=opsets)
    try:
        inferred = onnx.shape_inference.infer_shapes(alone).graph.output
    except Exception:  # what it cannot infer is not known
        return {}
    out = {}
    for info in map(info_of, inferred):
        told = info.dims is not None and all(
            isinstance(size, int) or size in sizes for size in info.dims
        )
        if told and info.type and info.dims is not None:
            dtype, given = info.type, tuple(map(str, info.dims))
            given = (given[0], *given[2:], given[1]) if last else given
            if like:
                value = importer.value(node.reads[typed])
                dtype = dtype if value is None else value.dtype
            out[info.name] = dtype, given
    return out


# Operators of com.microsoft whose first result has the shape of their first operand.
_LIKE_FIRST = frozenset(
    ("GroupQueryAttention", "MultiHeadAttention", "RotaryEmbedding", "BiasAdd", "BiasSoftmax")
)


def first_result(importer: Importer, node: Node) -> Value | None:
    """Return the type and sizes of the first result of an opaque operator, where they are known."""
    first = node.reads[0] if node.reads else ""
    x = importer.value(first) if first else None
    if x is None:
        return None
    if node.op in _LIKE_FIRST:
        return x
    columns = importer.attribute(node, "N")
    if node.op in ("MatMulNBits", "MatMulBnb4") and isinstance(columns, int) and columns > 0:
        return Value("", x.dtype, (*x.dims[:-1], str(columns)))
    return None
