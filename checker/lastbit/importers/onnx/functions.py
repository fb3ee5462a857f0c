"""Operators that are defined by others: functions of the model, and function bodies of ONNX.

The body of an operator is its rounding contract: every node in it rounds to its type, casts
included.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from lastbit.importers.imported import ImportedFileError
from lastbit.importers.onnx.library import load_onnx
from lastbit.importers.onnx.model import NUMBER_OF, Model, Node, domain_of, text_of

if TYPE_CHECKING:
    from lastbit.importers.onnx.graph import Importer

MOST_EXPANDED = 100_000  # nodes of all bodies
MOST_DEPTH = 16
# Their bodies are one way of many to compute them, which no kernel takes.
_WHOLE = frozenset(("Attention", "FlexAttention", "RotaryEmbedding", "Range"))


@dataclass(frozen=True, slots=True)
class Body:
    """What stands for a node.

    Attributes:
        nodes: in order; none where it has no body.
        strict: whether ONNX itself defines the operator by it, so that all of it must be modelled.
    """

    nodes: tuple[Node, ...] = ()
    strict: bool = False


class Functions:
    """Writes out bodies; the nodes of all of them are counted."""

    def __init__(self, model: Model) -> None:
        self.model = model
        self.expanded = 0

    def body(self, importer: Importer, node: Node, depth: int) -> Body:
        """Return the nodes that stand for a node.

        Raises:
            ImportedFileError: functions call one another too deeply, or grow too large.
        """
        function = self.model.functions.get((node.domain, node.op))
        strict = function is None
        if strict and not node.domain and node.op not in _WHOLE:
            function = self._schema_body(importer, node)
        if function is None:
            return Body()
        self.expanded += len(function.node)
        if depth >= MOST_DEPTH or self.expanded > MOST_EXPANDED:
            raise ImportedFileError(
                self.model.file,
                f"{node.label} is defined by functions that call one another "
                f"{f'{MOST_DEPTH} deep' if depth >= MOST_DEPTH else 'too often'}",
                "Export the model without such functions.",
            )
        defaults = self._defaults(node) if strict else {}
        return Body(tuple(_written_out(function, node, defaults)), strict)

    def _defaults(self, node: Node) -> dict[str, Any]:
        """Return the attributes that ONNX gives an operator where a node does not."""
        schema = load_onnx().defs.get_schema(node.op, self.model.opsets.get("", 1), "")
        return {
            name: attribute.default_value
            for name, attribute in schema.attributes.items()
            if attribute.default_value.name
        }

    def _schema_body(self, importer: Importer, node: Node) -> Any:
        """Return the body that ONNX itself gives an operator, or None."""
        onnx = load_onnx(self.model.file)
        version = self.model.opsets.get("", 1)
        try:
            schema = onnx.defs.get_schema(node.op, version, "")
        except Exception:  # of a version that onnx does not know
            return None
        if schema.has_function:
            return schema.function_body
        if not schema.has_context_dependent_function:
            return None
        types = []
        for name in node.reads:
            value = importer.value(name) if name else None
            if value is None or value.dtype not in NUMBER_OF:
                return None
            make = onnx.helper.make_tensor_type_proto
            shape = [int(d) if d.isdigit() else d for d in value.dims]
            types.append(make(NUMBER_OF[value.dtype], shape).SerializeToString())
        function = onnx.FunctionProto()
        made = schema.get_context_dependent_function(node.proto.SerializeToString(), types)
        function.ParseFromString(made)
        return function if function.node else None


def _written_out(function: Any, node: Node, defaults: Mapping[str, Any]) -> list[Node]:
    """Return the nodes of a body, reading what the node reads, giving what it gives."""
    onnx = load_onnx()
    names = {"": ""}
    inputs = [text_of(name) for name in function.input]
    names |= dict.fromkeys(inputs, "")
    names |= dict(zip(inputs, node.reads, strict=False))
    given = {**defaults, **{a.name: a for a in function.attribute_proto}}
    given |= {a.name: a for a in node.proto.attribute}
    gives = {text_of(o): name for o, name in zip(function.output, node.gives, strict=False) if name}
    base = next(filter(None, node.gives))
    out = []
    for inner in function.node:
        proto = onnx.NodeProto()
        proto.CopyFrom(inner)
        del proto.attribute[:]
        for attribute in inner.attribute:
            bound = _bound(onnx, attribute, given)
            if bound is not None:
                proto.attribute.append(bound)
        reads = tuple(names.get(n, f"{base}__{n}") for n in map(text_of, inner.input))
        outputs = [text_of(name) for name in inner.output]
        for name in outputs:
            names[name] = gives.get(name) or (f"{base}__{name}" if name else "")
        kept = tuple(names[name] for name in outputs)
        domain, op = domain_of(inner.domain), text_of(inner.op_type)
        out.append(Node(domain, op, node.name, reads, kept, proto, node.place))
    return out


def _bound(onnx: Any, attribute: Any, given: dict[str, Any]) -> Any:
    """Return an attribute with its own value, or with that of the calling node; else None."""
    if not attribute.ref_attr_name:
        return attribute
    found = given.get(attribute.ref_attr_name)
    if found is None:
        return None
    bound = onnx.AttributeProto()
    bound.CopyFrom(found)
    bound.name = attribute.name
    return bound
