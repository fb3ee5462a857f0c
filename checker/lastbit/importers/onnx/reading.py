"""Read an ONNX file, and refuse what is no model.

A file is data: nothing of it is executed, no other file is opened, and a graph that is no graph
(values read before they exist, two of one name, cycles) is refused with the node that shows it.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from lastbit.errors import InputError, Place, Problem, did_you_mean
from lastbit.importers.onnx.library import load_onnx
from lastbit.importers.onnx.model import (
    MAKE,
    MAX_SIZE,
    MOST_PROBLEMS,
    MOST_RANK,
    TYPES,
    Model,
    Node,
    ValueInfo,
    Weight,
    domain_of,
    error_about,
    info_of,
    mapped,
    printable,
    text_of,
)
from lastbit.importers.onnx.wire import Stripped, WireError, strip


def read_model(path: str | os.PathLike[str]) -> Model:
    """Read a model without its weights.

    Raises:
        InputError: the file cannot be read, is no ONNX model, or its graph is none.
    """
    file = os.fspath(path)
    onnx = load_onnx(file)
    try:
        with mapped(file) as data, memoryview(data) as view:
            stripped = strip(view)
    except WireError as error:
        raise error_about(
            file, f"the file is no ONNX model that can be read: {error}", MAKE
        ) from None
    proto = onnx.ModelProto()
    try:
        proto.ParseFromString(stripped.model)
    except Exception:  # of protobuf, whose versions raise errors of their own
        raise error_about(file, "the file is no ONNX model", MAKE) from None
    reader = _Reader(file, proto, stripped)
    model = reader.model()
    if reader.problems:
        raise InputError(reader.problems)
    return model


class _Reader:
    """Turns a ModelProto into records, and collects what is wrong with it."""

    def __init__(self, file: str, proto: Any, stripped: Stripped) -> None:
        self.file, self.proto, self.stripped = file, proto, stripped
        self.problems: list[Problem] = []

    def _report(self, message: str, remedy: str = MAKE, place: Place | None = None) -> None:
        if len(self.problems) < MOST_PROBLEMS:
            self.problems.append(Problem(message, remedy, place or Place(self.file)))

    def model(self) -> Model:
        graph = self.proto.graph
        weights = dict(self._weights(graph))
        given = [info for v in graph.input if (info := self._info(v)).name not in weights]
        outputs = [self._info(v) for v in graph.output]
        nodes = tuple(_node(node, self.file) for node in graph.node)
        if not self.proto.HasField("graph") or not outputs:
            self._report("the file holds no graph with a result")
        self._check_names([info.name for info in given], weights, nodes, outputs)
        infos = {} if self.problems else {v.name: self._info(v) for v in graph.value_info}
        return Model(
            self.file,
            nodes,
            tuple(given),
            tuple(outputs),
            weights,
            infos,
            {domain_of(o.domain): o.version for o in self.proto.opset_import},
            {(domain_of(f.domain), text_of(f.name)): f for f in self.proto.functions},
            self.proto,
        )

    def _weights(self, graph: Any) -> Iterator[tuple[str, Weight]]:
        for tensor in graph.initializer:
            shape = tuple(tensor.dims)
            kind = TYPES.get(tensor.data_type, "")
            info = ValueInfo(text_of(tensor.name), kind, shape)
            self._check_shape(info)
            if tensor.external_data:
                self._check_external(tensor)
            span = self.stripped.spans.get(info.name)
            yield info.name, Weight(info, tensor, span, self.stripped.lacking.get(info.name, b""))
        for sparse in graph.sparse_initializer:
            tensor = sparse.values
            kind = TYPES.get(tensor.data_type, "")
            info = ValueInfo(text_of(tensor.name), kind, tuple(sparse.dims))
            self._check_shape(info)
            yield info.name, Weight(info, tensor, sparse=sparse)

    def _check_external(self, tensor: Any) -> None:
        """Refuse data outside the model's folder, though it is not opened here."""
        entries = {text_of(entry.key): text_of(entry.value) for entry in tensor.external_data}
        where = entries.get("location", "")
        name = printable(text_of(tensor.name))
        if not inside_folder(self.file, where):
            self._report(
                f"the weight `{name}` is said to lie in {printable(where)!r}, outside the "
                "model's folder",
                "Keep external data beside the model.",
            )

    def _info(self, value: Any) -> ValueInfo:
        info = info_of(value)
        self._check_shape(info)
        return info

    def _check_shape(self, info: ValueInfo) -> None:
        name = printable(info.name)
        dims = info.dims or ()
        if len(dims) > MOST_RANK:
            self._report(f"`{name}` has {len(dims)} axes", f"At most {MOST_RANK} are read.")
        for size in dims:
            if isinstance(size, int) and not 0 <= size <= MAX_SIZE:
                self._report(f"an axis of `{name}` has the size {size}")
                break
        if not info.type:
            self._report(f"`{name}` has an element type that is not known")

    def _check_names(
        self,
        given: list[str],
        weights: Mapping[str, Weight],
        nodes: tuple[Node, ...],
        outputs: list[ValueInfo],
    ) -> None:
        """Refuse values of one name, reads of what does not exist, and cycles."""
        later = {name for node in nodes for name in node.gives if name}
        known = {*given, *weights}
        if len(set(given)) < len(given) or len(self.proto.graph.initializer) > len(weights):
            self._report("two inputs or weights have one name")
        for node in nodes:
            for name in node.reads:
                if name and name not in known:
                    self._unknown(node, name, later)
            for name in filter(None, node.gives):
                if name in known:
                    self._report(f"{node.label} gives `{printable(name)}`, which exists already")
                known.add(name)
            if not node.op or not any(node.gives):
                self._report(f"a node has no {'result' if node.op else 'operator'}")
        for info in outputs:
            if info.name not in known:
                names = [printable(name) for name in known]
                message = f"nothing gives the result `{printable(info.name)}`"
                self._report(message, did_you_mean(printable(info.name), names) if names else MAKE)

    def _unknown(self, node: Node, name: str, later: set[str]) -> None:
        shown = printable(name)
        if name in later:
            self._report(
                f"{node.label} reads `{shown}` before it is computed: the nodes are not in order, "
                "or form a cycle"
            )
        else:
            self._report(f"{node.label} reads `{shown}`, which nothing gives")


def inside_folder(file: str, location: str) -> bool:
    """Return whether a location of external data lies in the folder of the model."""
    if not location or os.path.isabs(location) or "\\" in location or "\0" in location:
        return False
    folder = Path(os.path.realpath(file)).parent
    return Path(os.path.realpath(folder / location)).is_relative_to(folder)


def _node(proto: Any, file: str) -> Node:
    return Node(
        domain_of(proto.domain),
        text_of(proto.op_type),
        text_of(proto.name),
        tuple(map(text_of, proto.input)),
        tuple(map(text_of, proto.output)),
        proto,
        _place(proto, file),
    )


def _place(proto: Any, file: str) -> Place:
    """Return the user's innermost line of the stack trace that torch's exporter writes."""
    found = []
    for entry in proto.metadata_props:
        if entry.key == "pkg.torch.onnx.stack_trace":
            for line in reversed(text_of(entry.value)[-4000:].splitlines()):
                head, mark, rest = line.strip().partition('", line ')
                number = rest.partition(",")[0]
                if mark and head.startswith('File "') and number.isdigit():
                    found.append(Place(printable(head[6:]), int(number[:9])))
    own = (place for place in found if "/site-packages/" not in place.file)
    return next(own, found[0] if found else Place(file))
