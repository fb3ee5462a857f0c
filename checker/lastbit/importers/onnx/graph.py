"""Turn the nodes of an ONNX model into a program, one after the other."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from lastbit import graph
from lastbit.building import MissingError, build
from lastbit.errors import InputError, LastbitError, Place, Problem
from lastbit.expression import parse_expression
from lastbit.importers.imported import Imported, ImportedFileError, Value, is_float
from lastbit.importers.onnx.call import Call, NotModelledError, Operand, of_numbers
from lastbit.importers.onnx.constants import numbers
from lastbit.importers.onnx.contents import (
    Content,
    bytes_content,
    tensor_content,
    weight_content,
)
from lastbit.importers.onnx.functions import Functions
from lastbit.importers.onnx.library import load_onnx
from lastbit.importers.onnx.model import (
    MOST_PROBLEMS,
    NUMBER_OF,
    Model,
    Node,
    ValueInfo,
    Weight,
    printable,
)
from lastbit.importers.onnx.opaque import first_result, operands, own_results
from lastbit.importers.onnx.renames import Renames, kept_in_narrow
from lastbit.importers.onnx.table import find
from lastbit.importers.writer import Out, Writer
from lastbit.plan_model import Span
from lastbit.syntax import StatementError

DEFAULT_SIZE = 2000  # the largest of the first symbol; then one less, so that no two are equal
MOST_INFERRED = 20_000  # nodes of a graph whose shapes onnx is asked for
MISFITS = (ValueError, IndexError, TypeError, KeyError, ArithmeticError)  # of what no node can be
READABLE = ("f16", "bf16", "f32", "f64", "e4m3fn", "e4m3fnuz", "e5m2", "e5m2fnuz", "e2m1", "e8m0")
WHOLE = ("i64", "i32", "i16", "i8", "u8", "bool")


class Importer:
    """Imports one model.

    Args:
        model: the model.

    Attributes:
        operands: what is known of each value, by its name in the file.
        originals: names that values get, where ONNX Runtime gave them others.
        narrowed: values that nothing but a conversion reads: the converted one and its type.
    """

    def __init__(self, model: Model) -> None:
        self.model = model
        self.writer = Writer(model.file)
        self.operands: dict[str, Operand] = {}
        self.functions = Functions(model)
        renames = Renames(model)
        self.originals: Mapping[str, str] = renames.originals
        self.narrowed: Mapping[str, tuple[str, str]] = renames.narrowed
        self.weights: dict[str, str] = {}
        self.contents: dict[str, Content] = {}
        self.symbols: dict[str, str] = {}
        self._inferred: dict[str, ValueInfo] | None = None

    def imported(self) -> Imported:
        """Return the program.

        Raises:
            InputError: the model holds what no program can.
        """
        shapes = [self._input_dims(info) for info in self.model.inputs]
        self.writer.reserve(self.symbols.values())
        for info, sizes in zip(self.model.inputs, shapes, strict=True):
            value = self.writer.input(Out(info.name, info.type, sizes))
            self.operands[info.name] = Operand(value)
        for node in self.model.nodes:
            self.run(node)
        for info in self.model.outputs:
            self._result(info.name)
        spans = {
            name: Span(1, DEFAULT_SIZE - i, DEFAULT_SIZE - i)
            for i, name in enumerate(self.symbols.values())
        }
        first = next((dims[0] for v in self.model.inputs if (dims := v.dims)), None)
        batch = self.symbols.get(first) if isinstance(first, str) else None
        results = [info.name for info in self.model.outputs]
        made = self.writer.imported(results, spans, batch, self.weights)
        made = replace(made, contents=self.contents)
        self._check_shapes(made)
        return made

    def _check_shapes(self, made: Imported) -> None:
        """Refuse what does not fit together at sizes that much divides.

        Raises:
            InputError: everything that does not.
        """
        sizes = {name: 720 * (i + 1) for i, name in enumerate(made.symbols)}
        values: dict[str, graph.Node] = {}
        problems: list[Problem] = []
        for st in made.program.statements:
            try:
                values[st.name] = build(st, values, sizes)
            except MissingError:
                continue
            except StatementError as fault:
                text = fault.message
            except LastbitError as error:
                text = str(error)
            except (IndexError, ArithmeticError):
                text = "its operands have different numbers of axes"
            if st.name not in values and len(problems) < MOST_PROBLEMS:
                origin = made.origins.get(st.name)
                shown = printable(st.name if origin is None else origin.original)
                operator = "" if origin is None or not origin.operator else f"{origin.operator} "
                message = f"{operator}`{shown}`: {text}"
                problems.append(Problem(message, "", Place(self.model.file)))
        if problems:
            raise InputError(problems)

    def run(self, node: Node, depth: int = 0, strict: bool = False) -> None:
        """Import one node.

        Args:
            node: the node.
            depth: how many functions it stands in.
            strict: whether it stands in the body of an operator, which is modelled as a whole or
                not at all.

        Raises:
            NotModelledError: it is strict and not modelled.
        """
        if node.gives and all(not name or name in self.operands for name in node.gives):
            return  # stated already, with the node that it converts
        call = Call(self, node)
        operator = find(node.domain, node.op)
        marks = len(self.writer.statements), len(self.writer.assumed)
        try:
            if operator is not None:
                operator.build(call)
                return
            body = self.functions.body(self, node, depth)
            for inner in body.nodes:
                self.run(inner, depth + 1, strict or body.strict)
            if body.nodes:
                return
            why = "no function body says what it computes"
        except NotModelledError as error:
            why = str(error)
        except ImportedFileError:
            raise
        except (
            LastbitError,
            ValueError,
            IndexError,
            TypeError,
            KeyError,
            ArithmeticError,
        ) as error:
            raise self._error(f"{node.label} cannot be: {error!s:.200}") from None
        if strict:
            raise NotModelledError(why)
        self._forget(node, marks)
        self._opaque(call, why)

    def _forget(self, node: Node, marks: tuple[int, int]) -> None:
        """Drop the statements of a node that turned out to be opaque, and what they assume."""
        for text in list(self.writer.assumed)[marks[1] :]:
            del self.writer.assumed[text]
        for name in list(self.writer.statements)[marks[0] :]:
            drawn = self.writer.inputs.pop(name, None)  # an input that the file does not have
            if drawn is not None or self.writer.statements[name].expr is not None:
                del self.writer.statements[name]
                self.writer.origins.pop(name, None)
        for name in node.gives:
            self.operands.pop(name, None)

    # Values.

    def operand(self, name: str) -> Operand:
        """Return what is known of a value."""
        if name not in self.operands:
            weight = self.model.weights[name]
            dims = tuple(map(str, weight.info.dims or ()))
            try:
                dense = weight.sparse is None
                known = numbers(weight.tensor, weight.info.type) if dense else None
            except ValueError as error:
                raise self._error(f"the weight `{printable(name)}` {error}") from None
            if known is None:
                self.operands[name] = Operand(None)
            else:
                self.operands[name] = of_numbers(known, dims, weight.info.type)
        return self.operands[name]

    def value(self, name: str) -> Value | None:
        """Return a value as expressions read it; a weight becomes an input when it is first read.

        Returns:
            None for what is no tensor of numbers, such as a sequence.
        """
        found = self.operand(name)
        if found.value is None and name in self.model.weights:
            value = self._weight(name, self.model.weights[name])
            found = self.operands[name] = replace(found, value=value)
        elif found.value is None and found.shape is not None and _readable(found.dtype):
            found = self.operands[name] = replace(found, value=self._constant(name, found))
        return found.value

    def _constant(self, name: str, found: Operand) -> Value:
        """Declare numbers that were worked out while the model was read, as an input."""
        onnx = load_onnx()
        given = [float(n) if is_float(found.dtype) else int(n) for n in found.numbers or ()]
        tensor = onnx.helper.make_tensor(name, NUMBER_OF[found.dtype], found.shape or (), given)
        dims = tuple(map(str, found.shape or ()))
        self.declare(name, found.dtype, dims, tensor)
        value = self.operands[name].value
        assert value is not None
        return value

    def _weight(self, name: str, weight: Weight) -> Value | None:
        dims = tuple(map(str, weight.info.dims or ()))
        dtype = weight.info.type
        if not _readable(dtype):
            return None
        narrow = kept_in_narrow(self.model, name, weight)
        original, stored = (narrow.name, narrow.type) if narrow else (name, dtype)
        if original in self.model.weights and original != name:
            value = self.value(original)
            return None if value is None else Value(value.name, dtype, dims)
        value = self.writer.input(Out(original, stored, dims))
        self.weights[value.name] = name
        held = partial(weight_content, self.model, weight)
        if narrow:
            held = partial(bytes_content, narrow.type, dims, narrow.data)
        self.contents[value.name] = held
        return Value(value.name, dtype, dims)

    def declare(self, name: str, dtype: str, dims: Sequence[str], tensor: Any) -> None:
        """Declare a constant of many numbers, a TensorProto, as an input.

        Raises:
            NotModelledError: it holds no numbers that an input can have.
        """
        if not _readable(dtype):
            raise NotModelledError(f"it is of type {dtype}")
        value = self.writer.input(Out(name, dtype, tuple(dims)))
        self.weights[value.name] = name
        self.contents[value.name] = partial(tensor_content, self.model.file, tensor)
        self.operands[name] = Operand(value)

    def _input_dims(self, info: ValueInfo) -> tuple[str, ...]:
        if info.dims is None or not _readable(info.type):
            what = f"is of type {info.type}" if info.dims is not None else "has no shape"
            raise self._error(f"the input `{printable(info.name)}` {what}")
        return tuple(self._dim(size, info.name, i) for i, size in enumerate(info.dims))

    def _dim(self, size: int | str | None, name: str, axis: int) -> str:
        """Return a size as an expression; what has a name, or none at all, is a symbol."""
        if isinstance(size, int):
            return str(size)
        if size is not None:
            try:
                expression = parse_expression(size)
                for symbol in sorted(expression.symbols):
                    self.symbols.setdefault(symbol, symbol)
                return expression.text
            except LastbitError:
                pass
        key = size if size is not None else f"{name}_{axis}"
        if key not in self.symbols:
            word = "".join(c if c.isascii() and c.isalnum() else "_" for c in key)[:60] or "size"
            word = f"n{word}" if not word[0].isalpha() else word
            while word in self.symbols.values() or word in self.writer.statements:
                word += "_"
            self.symbols[key] = word
        return self.symbols[key]

    def _result(self, name: str) -> None:
        """Give a result that is an input, a constant or a list of sizes a statement of its own."""
        value = self.value(name)
        if value is None:
            raise self._error(f"the result `{printable(name)}` is no tensor of numbers")
        origin = self.writer.origins.get(value.name)
        st = self.writer.statements.get(value.name)
        named = origin is not None and origin.original == name
        held = st is not None and st.expr is not None
        if held and st is not None and st.rounding is not None:
            held = st.rounding.format.short == value.dtype
        if not named or not held:
            step = self.writer.step("Identity", [Out(name, value.dtype, value.dims)])
            step.give(value.name)

    def rewriter(self, node: Node) -> str:
        """Return the pass of ONNX Runtime that made a node: it stands in the node's name."""
        parts = [part for part in node.name.split("/") if part.endswith("Fusion")]
        return printable(" and ".join(dict.fromkeys(parts)))

    # Attributes.

    def attribute(self, node: Node, name: str, default: Any = None) -> Any:
        """Return an attribute of a node."""
        for given in node.proto.attribute:
            if given.name == name:
                return load_onnx().helper.get_attribute_value(given)
        return default

    # What is not modelled.

    def _opaque(self, call: Call, why: str) -> None:
        """State a node by its name only; a result without a known shape is refused."""
        node = call.node
        names = [name for name in node.gives if name]
        infos = [self._known(name) for name in names]
        reads, _ = operands(self, node)
        own = own_results(self, node)
        dims, dtypes = [], []
        for name, info in zip(names, infos, strict=True):
            if name in own and _readable(own[name][0]):
                dims.append(own[name][1])
                dtypes.append(own[name][0])
            elif info is not None and info.dims is not None and _readable(info.type):
                dims.append(tuple(self._dim(d, name, i) for i, d in enumerate(info.dims)))
                dtypes.append(info.type)
            elif name == node.gives[0] and (like := first_result(self, node)) is not None:
                dims.append(like.dims)
                dtypes.append(like.dtype)
            else:
                raise ImportedFileError(
                    self.model.file,
                    f"{node.label} is known by its name only ({why}), and the file does not say "
                    f"which shape `{printable(name)}` has",
                    "Write the shapes into the file: onnx.shape_inference.infer_shapes, or "
                    "onnxruntime.tools.symbolic_shape_infer.",
                )
        call.opaque(reads, dims, dtypes)

    def _known(self, name: str) -> ValueInfo | None:
        """Return what the file says of a value, or what onnx infers from it."""
        for info in (self.model.infos.get(name), *self.model.outputs):
            if info is not None and info.name == name and info.dims is not None and info.type:
                return info
        if self._inferred is None:
            few = len(self.model.nodes) <= MOST_INFERRED
            self._inferred = self.model.inferred() if few else {}
        return self._inferred.get(name)

    def _error(self, cause: str) -> ImportedFileError:
        remedy = "Import the model without it, or export it again."
        return ImportedFileError(self.model.file, cause.rstrip("."), remedy)


def _readable(dtype: str) -> bool:
    return dtype in READABLE or dtype in WHOLE
