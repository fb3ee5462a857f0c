"""The arguments and results of nodes: values, numbers, sizes and lists of these."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from lastbit.errors import LastbitError
from lastbit.importers.imported import Size, Value
from lastbit.importers.pt2.constants import Constant
from lastbit.importers.pt2.fields import Fields
from lastbit.importers.pt2.sizes import SizeError, size_text
from lastbit.importers.pt2.storage import Storages
from lastbit.importers.writer import Out, Writer
from lastbit.statement import MAX_SIZE

MOST_AXES = 64
SATURATES = (2, 13)  # the torch whose casts to 8-bit formats saturate; 2.11 gives NaN

# torch/_export/serde/schema.py, ScalarType.
DTYPES = {
    1: "u8", 2: "i8", 3: "i16", 4: "i32", 5: "i64", 6: "f16", 7: "f32", 8: "f64", 12: "bool",
    13: "bf16", 29: "e4m3fn", 30: "e5m2", 31: "e4m3fnuz", 32: "e5m2fnuz", 33: "e8m0",
    9: "complex32", 10: "complex64", 11: "complex128", 28: "u16", 34: "u32", 35: "u64",
}  # fmt: skip
# Arguments that are lists of plain values, or plain values themselves.
_PLAIN = {
    "as_int": int, "as_float": float, "as_bool": bool, "as_string": str, "as_ints": list,
    "as_floats": list, "as_bools": list, "as_strings": list, "as_int_lists": list,
}  # fmt: skip
_STORED = ("as_device", "as_layout", "as_memory_format")
_SPECIAL = {"Infinity": float("inf"), "-Infinity": float("-inf"), "NaN": float("nan")}

NONE = Out("none", "f32", ("0",))  # in the place of a result that a node does not give


class Arguments(Fields):
    """Reads what nodes are given and what they give.

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
        self.storages = Storages()
        self.backed: set[str] = set()  # symbols that the inputs' sizes give
        self.made: dict[str, Value] = {}  # what gives each other symbol, and each other number
        self.constants: Mapping[str, Constant] | None = None  # None: not read yet
        self.given: dict[str, str] = {}  # the inputs, and their names in the program
        self.places: list[str] = []  # their names in the signature, in order
        self.mutations: list[str] = []  # what results take the place of
        self.fixed: dict[int, str] = {}  # storages that lie outside of an inner graph
        self.more: list[Value] = []  # what the node that is read depends on by such

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
                    yield self._new(self.name(arg)) if inner == "as_tensor" else NONE
            elif tag == "as_none":
                yield NONE

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
        return self._seen(name, value) if name in self.storages.waiting else value

    def _seen(self, name: str, value: Value) -> Value:
        """Return a value after the writes to its storage that went by other names."""
        for write in self.storages.waiting.pop(name, ()):
            out = Out(self.writer.fresh(f"{name}_written"), value.dtype, value.dims)
            step = self.writer.step(write.operator, [out], write.place, write.module)
            seen = f"{write.call} into {write.path} seen at {self.storages.path[name]}"
            step.opaque([value, *write.reads], seen)
            value = self.writer.values.pop(out.original)
            self.writer.values[name] = value
        return value


def _version(model: dict[str, Any]) -> tuple[int, int]:
    """Return the version of torch that wrote a model; (0, 0) where it does not say."""
    match = re.match(r"(\d{1,4})\.(\d{1,4})", str(model.get("torch_version", ""))[:20])
    return (int(match[1]), int(match[2])) if match else (0, 0)
