"""Turn the graph of a `.pt2` file into a program: nodes in order, by the table of aten operators.

The schema is that of `torch/_export/serde/schema.py`, major version 8. Weights are not read.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from lastbit.errors import LastbitError, Place
from lastbit.importers import aten
from lastbit.importers.imported import Imported, ImportedFileError, Size, Value
from lastbit.importers.pt2.archive import read_model
from lastbit.importers.pt2.fields import Fields
from lastbit.importers.pt2.sizes import SizeError, size_text
from lastbit.importers.writer import Out, Writer
from lastbit.plan_model import Span
from lastbit.statement import MAX_SIZE
from lastbit.tracing.source import shown_file

MOST_NODES = 200_000
MOST_AXES = 64
LARGEST_GUESS = 2000  # of a symbol whose range is open

SATURATES = (2, 13)  # the torch whose casts to 8-bit formats saturate; 2.11 gives NaN

# torch/_export/serde/schema.py, ScalarType.
DTYPES = {
    1: "u8", 2: "i8", 3: "i16", 4: "i32", 5: "i64", 6: "f16", 7: "f32", 8: "f64", 12: "bool",
    13: "bf16", 29: "e4m3fn", 30: "e5m2", 31: "e4m3fnuz", 32: "e5m2fnuz", 33: "e8m0",
}  # fmt: skip
# Arguments that are lists of plain values, or plain values themselves.
_PLAIN = {
    "as_int": int, "as_float": float, "as_bool": bool, "as_string": str, "as_ints": list,
    "as_floats": list, "as_bools": list, "as_strings": list, "as_int_lists": list,
}  # fmt: skip
_STORED = ("as_device", "as_layout", "as_memory_format")
_SPECIAL = {"Infinity": float("inf"), "-Infinity": float("-inf"), "NaN": float("nan")}
_INLINED = (
    "torch.ops.higher_order.wrap_with_set_grad_enabled",
    "torch.ops.higher_order.wrap_with_autocast",
)
_FRAME = re.compile(r'File "([^"\n]{1,1000})", line (\d{1,9})')
_LIBRARY = re.compile(r"[/\\]site-packages[/\\]torch[/\\]|[/\\]torch[/\\](nn|_|functional)")


def read_pt2(path: str) -> Imported:
    """Return the graph of a file that torch.export wrote.

    Args:
        path: the file, as the user named it.

    Raises:
        ImportedFileError: the file cannot be read; the text says what is wrong and where.
    """
    return _Reader(path, read_model(path)).imported()


class _Reader(Fields):
    """Reads one model.

    Args:
        path: the file, as the user named it.
        model: its JSON.
    """

    def __init__(self, path: str, model: dict[str, Any]) -> None:
        super().__init__(path)
        self.model = model
        self.module = self.member(model, "graph_module", dict)
        graph = self.member(self.module, "graph", dict)
        self.writer = Writer(path, saturates=_version(model) >= SATURATES)
        self.writer.reserve(self.member(model, "range_constraints", dict))
        self.tables = [graph]  # the graph, and the inner ones that are being read
        self.nodes = 0
        self.symbols: dict[str, int | None] = {}  # with the size they had when exported
        self.leading: list[str] = []  # sizes of the first axes of the user's inputs

    def imported(self) -> Imported:
        graph = self.tables[0]
        weights = self._inputs()
        self._graph(graph)
        self.where = "the outputs"
        results = list(dict.fromkeys(self._results()))
        known = [name for name in results if name in self.writer.values]
        symbols = self._spans()
        batch = next((dim for dim in self.leading if dim in symbols), None)
        if any(dim != batch for dim in self.leading if dim in symbols):
            batch = None
        found = self.writer.imported(known, symbols, batch, weights)
        if not found.program.outputs:
            self.fail("the graph computes nothing", "Export a module that computes something.")
        return found

    # Inputs and results.

    def _inputs(self) -> dict[str, str]:
        """Declare the inputs; return those that the file holds values of."""
        signature = self.member(self.module, "signature", dict)
        weights = {}
        for number, spec in enumerate(self.member(signature, "input_specs", list)):
            self.where = f"input {number}"
            tag, held = self.union(spec)
            if tag in ("custom_obj", "token", "constant_input"):
                continue
            arg = self.member(held, "arg", dict)
            if tag == "user_input":
                kind, arg = self.union(arg)
                if kind != "as_tensor":
                    continue
            name = self.name(arg)
            if name in self.writer.values:
                self.fail(f"`{name}` is given twice")
            out = self._out(name)
            value = self.writer.input(out)
            if tag == "user_input":
                self.leading += out.dims[:1]
            else:
                key = {"parameter": "parameter_name", "buffer": "buffer_name"}
                weights[value.name] = self.member(held, key.get(tag, "tensor_constant_name"), str)
        return weights

    def _results(self) -> Iterator[str]:
        for spec in self.member(self.member(self.module, "signature", dict), "output_specs", list):
            tag, held = self.union(spec)
            arg = self.member(held, "arg", dict)
            if tag == "user_output":
                kind, arg = self.union(arg)
                if kind != "as_tensor":
                    continue
            elif tag == "token":
                continue
            name = self.name(arg)
            if name not in self.writer.values:
                self.fail(f"the result `{name}` is given by no node")
            yield name

    # Nodes.

    def _graph(self, graph: dict[str, Any]) -> None:
        for node in self.member(graph, "nodes", list):
            self.nodes += 1
            if self.nodes > MOST_NODES:
                self.fail(f"there are more than {MOST_NODES} nodes", "Export a part of the model.")
            self._node(node)

    def _node(self, node: Any) -> None:
        self.where = f"node {self.nodes}"
        target = self.member(node, "target", str)
        self.where = f"node {self.nodes} ({target[:100]})"
        if target.startswith(_INLINED):
            self._inline(node)
            return
        outs = list(self._outs(node))
        if not outs or aten.base_name(target) in aten.IGNORED:
            return  # a size, which the tables give, or a check
        args, keywords = self._arguments(node)
        place, module = self._origin(node)
        step = self.writer.step(aten.base_name(target), outs, place, module)
        try:
            aten.apply(step, target, args, keywords)
        except (LastbitError, IndexError, AttributeError, ValueError, TypeError) as error:
            if isinstance(error, ImportedFileError):
                raise
            self.fail(f"its arguments do not fit: {error}")

    def _inline(self, node: Any) -> None:
        """Write out a graph that is called in some mode, such as without gradients."""
        if len(self.tables) > 8:
            self.fail("graphs are nested too deeply")
        inputs = [self.member(one, "arg", dict) for one in self.member(node, "inputs", list)]
        at = next((i for i, arg in enumerate(inputs) if "as_graph" in arg), None)
        if at is None:
            self.fail("it has no inner graph")
        inner = self.member(self.member(inputs[at], "as_graph", dict), "graph", dict)
        outer = dict(self.writer.values)
        given = [self._argument(arg) for arg in inputs[at + 1 :]]
        names = [self.union(arg) for arg in self.member(inner, "inputs", list)]
        for (tag, arg), value in zip(names, given, strict=False):
            if tag == "as_tensor" and isinstance(value, Value):
                self.writer.values[self.name(arg)] = value
        self.tables.append(inner)
        self._graph(inner)
        self.tables.pop()
        found = []
        for one in self.member(inner, "outputs", list):
            tag, arg = self.union(one)
            found.append(self.writer.values.get(self.name(arg)) if tag == "as_tensor" else None)
        self.writer.values = outer
        outputs = [(tag, arg) for tag, arg in map(self.union, self.member(node, "outputs", list))]
        flat = [a for tag, arg in outputs for a in (arg if tag == "as_tensors" else [arg])]
        for arg, value in zip(flat, found, strict=False):
            if value is not None:
                self.writer.values[self.name(arg)] = value

    def _outs(self, node: Any) -> Iterator[Out]:
        """Yield the tensors that a node gives; what is none keeps its number."""
        for output in self.member(node, "outputs", list):
            tag, held = self.union(output)
            if tag == "as_tensor":
                yield self._new(self.name(held))
            elif tag == "as_tensors":
                if not isinstance(held, list):
                    self.fail("`as_tensors` is not a list")
                for one in held:
                    yield self._new(self.name(one))
            elif tag in ("as_optional_tensor", "as_optional_tensors"):
                for one in held if isinstance(held, list) else [held]:
                    inner, arg = self.union(one)
                    yield self._new(self.name(arg)) if inner == "as_tensor" else _NONE
            elif tag == "as_none":
                yield _NONE

    def _new(self, name: str) -> Out:
        if name in self.writer.values:
            self.fail(f"`{name}` is given twice")
        return self._out(name)

    def _out(self, name: str) -> Out:
        meta: Any = None
        for table in reversed(self.tables):
            meta = self.member(table, "tensor_values", dict).get(name)
            if meta is not None:
                break
        else:
            self.fail(f"`{name}` has no format and shape")
        number = self.member(meta, "dtype", int)
        if number not in DTYPES:
            self.fail(f"`{name}` is of the type number {number}", "Export it in another type.")
        sizes = self.member(meta, "sizes", list)
        if len(sizes) > MOST_AXES:
            self.fail(f"`{name}` has {len(sizes)} axes", f"At most {MOST_AXES} are read.")
        device = meta.get("device")
        if isinstance(device, dict) and device.get("type") not in (None, "cpu", "meta"):
            self.writer.device = "cuda"
        return Out(name, DTYPES[number], tuple(str(self._size(size)) for size in sizes))

    def _size(self, size: Any) -> int | Size:
        tag, held = self.union(size)
        if tag == "as_int" and type(held) is int and 0 <= held <= MAX_SIZE:
            return held
        if tag != "as_expr":
            self.fail(f"a size is {str(held)[:60]}")
        try:
            text = size_text(self.member(held, "expr_str", str))
        except (SizeError, LastbitError) as error:
            self.fail(str(error).rstrip("."))
        if text.isidentifier():
            hint = held.get("hint")
            known = hint.get("as_int") if isinstance(hint, dict) else None
            self.symbols.setdefault(text, known if type(known) is int else None)
        return Size(text)

    # Arguments.

    def _arguments(self, node: Any) -> tuple[list[object], dict[str, object]]:
        args, keywords = [], {}
        for one in self.member(node, "inputs", list):
            value = self._argument(self.member(one, "arg", dict))
            if one.get("kind") == 2:
                keywords[self.name(one)] = value
            else:
                args.append(value)
        return args, keywords

    def _argument(self, arg: Any) -> object:
        tag, held = self.union(arg)
        if tag == "as_tensor":
            return self._value(self.name(held))
        if tag in ("as_none", *_STORED):
            return None
        if tag in _PLAIN:
            return self._plain(held)
        if tag == "as_scalar_type":
            return DTYPES.get(held) if isinstance(held, int) else None
        if tag in ("as_tensors", "as_sym_ints", "as_optional_tensors"):
            if not isinstance(held, list):
                self.fail(f"`{tag}` is not a list")
            if tag == "as_tensors":
                return [self._value(self.name(one)) for one in held]
            if tag == "as_sym_ints":
                return [self._symbolic(one) for one in held]
            return [self._optional(one) for one in held]
        if tag == "as_optional_tensor":
            return self._optional(held)
        if tag == "as_sym_int":
            return self._symbolic(held)
        return f"<{tag}>"  # known to no row of the table: the operator stays opaque

    def _plain(self, value: Any) -> object:
        if isinstance(value, list):
            return [self._plain(one) for one in value]
        if isinstance(value, str):
            return _SPECIAL.get(value, value)
        if value is None or isinstance(value, bool | int | float):
            return value
        self.fail("an argument is no plain value")

    def _optional(self, held: Any) -> object:
        tag, arg = self.union(held)
        return self._value(self.name(arg)) if tag == "as_tensor" else None

    def _symbolic(self, held: Any) -> object:
        tag, value = self.union(held)
        if tag == "as_int" and type(value) is int:
            return value
        if tag != "as_name" or not isinstance(value, str):
            self.fail("a size is neither a number nor a name")
        for table in reversed(self.tables):
            size = self.member(table, "sym_int_values", dict).get(value)
            if size is not None:
                found = self._size(size)
                return int(found) if isinstance(found, Size) and found.isdigit() else found
        self.fail(f"reads the size `{value}`, which is not declared")

    def _value(self, name: str) -> Value:
        value = self.writer.values.get(name)
        if value is None:
            self.fail(f"reads `{name[:100]}`, which no earlier node gives")
        return value

    # Where a node comes from, and sizes.

    def _origin(self, node: Any) -> tuple[Place, str]:
        data = node.get("metadata")
        data = data if isinstance(data, dict) else {}
        trace, stack = data.get("stack_trace"), data.get("nn_module_stack")
        place = Place()
        if isinstance(trace, str):
            frames = _FRAME.findall(trace[-20_000:])
            own = [frame for frame in frames if not _LIBRARY.search(frame[0])]
            for file, line in (own or frames)[-1:]:
                place = Place(shown_file(file), int(line))
        module = ""
        if isinstance(stack, str):
            parts = stack[-2000:].rpartition(";")[2].split(",")
            module = parts[1] if len(parts) > 2 else ""
        return place, module

    def _spans(self) -> dict[str, Span]:
        self.where = "the ranges of sizes"
        ranges = self.member(self.model, "range_constraints", dict)
        spans = {}
        for name, hint in self.symbols.items():
            span = ranges.get(name)
            span = span if isinstance(span, dict) else {}
            low, high = span.get("min_val"), span.get("max_val")
            low = max(1, low) if type(low) is int else 1
            if type(high) is not int or high > MAX_SIZE:
                high = max(LARGEST_GUESS, hint or 0, low)
                text = f"assumed {name} in [{low}, {high}], for its range is open"
                self.writer.assumed[text] = None
            if not low <= high <= MAX_SIZE:
                self.fail(f"`{name}` is from {low} to {high}")
            spans[name] = Span(low, high, min(max(hint or high, low), high))
        return spans


def _version(model: dict[str, Any]) -> tuple[int, int]:
    """Return the version of torch that wrote a model; (0, 0) where it does not say."""
    match = re.match(r"(\d{1,4})\.(\d{1,4})", str(model.get("torch_version", ""))[:20])
    return (int(match[1]), int(match[2])) if match else (0, 0)


_NONE = Out("none", "f32", ("0",))
