"""Turn the graph of a `.pt2` file into a program: nodes in order, by the table of aten operators.

The schema is that of `torch/_export/serde/schema.py`, major version 8. Constants are read, weights
are not.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import chain
from typing import Any

from lastbit.errors import LastbitError
from lastbit.importers import aten
from lastbit.importers.imported import (
    NO_ARITHMETIC,
    NOWHERE,
    Imported,
    ImportedFileError,
    Value,
    stored,
)
from lastbit.importers.pt2.archive import read_model
from lastbit.importers.pt2.arguments import NONE
from lastbit.importers.pt2.constants import drawn_for, read_constants
from lastbit.importers.pt2.effects import Effects, symbols_of
from lastbit.importers.pt2.identity import call_text, tensors
from lastbit.importers.pt2.places import origin
from lastbit.importers.pt2.shapes import SIZES, misstated, wrong_shape
from lastbit.importers.pt2.storage import TRAINING, Storages, written
from lastbit.importers.writer import Out
from lastbit.plan_model import Span
from lastbit.statement import MAX_SIZE

MOST_NODES = 200_000
LARGEST_GUESS = 2000  # of a symbol whose range is open

_INLINED = (
    "torch.ops.higher_order.wrap_with_set_grad_enabled",
    "torch.ops.higher_order.wrap_with_autocast",
)
# Results that take the place of an input, and where its name stands.
_MUTATIONS = {
    "buffer_mutation": "buffer_name",
    "parameter_mutation": "parameter_name",
    "user_input_mutation": "user_input_name",
}
_KNOWN = ("aten.", "prims.", "higher_order.")  # libraries whose operators say what they write to
_CASTS = ("aten.to.dtype)", "aten.to.dtype_layout)", "aten.to.other)", "aten.type_as.default)")


def read_pt2(path: str) -> Imported:
    """Return the graph of a file that torch.export wrote.

    Args:
        path: the file, as the user named it.

    Raises:
        ImportedFileError: the file cannot be read; the text says what is wrong and where.
    """
    return _Reader(path, read_model(path)).imported()


class _Reader(Effects):
    """Reads one model.

    Args:
        path: the file, as the user named it.
        model: its JSON.
    """

    def imported(self) -> Imported:
        graph = self.tables[0]
        weights = self._inputs()
        dims = {dim for value in self.writer.values.values() for dim in value.dims}
        self.backed.update(symbol for dim in dims for symbol in symbols_of(dim))
        self._graph(graph)
        self.where = "the outputs"
        changed = list(self._changed())
        results = self._each_computed(chain(self._results(), changed))
        symbols = self._spans()
        batch = next((dim for dim in self.leading if dim in symbols), None)
        if any(dim != batch for dim in self.leading if dim in symbols):
            batch = None
        found = self.writer.imported(results, symbols, batch, weights)
        if not found.program.outputs:
            self.where = "the outputs"
            self.fail("the graph returns no tensor", "Export a module that returns one.")
        written = (*self.mutations, *(weights.get(self.given[name], name) for name in changed))
        if changed:
            found = replace(found, assumed=(*found.assumed, "inputs written to are results"))
        if all(hint is not None for hint in self.symbols.values()):
            wrong = wrong_shape(found)
            if wrong is not None:
                self.where = "the graph"
                self.fail(wrong)
        return replace(found, by_name=False, written=written)

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
            if tag == "tensor_constant" and self._constant(out, held):
                continue
            value = self.writer.input(out)
            self.given[name] = value.name
            if tag == "user_input":
                self.places.append(name)
                self.leading += out.dims[:1]
            else:
                key = {"parameter": "parameter_name", "buffer": "buffer_name"}
                original = self.member(held, key.get(tag, "tensor_constant_name"), str)
                self.places.append(original)
                weights[value.name] = original
        return weights

    def _constant(self, out: Out, held: Any) -> bool:
        """State a constant by its value or its digest; False where the file does not give it."""
        if self.constants is None:
            self.constants = read_constants(self.file)
        found = self.constants.get(self.member(held, "tensor_constant_name", str))
        if found is None:
            return False
        if found.number is not None:
            step = self.writer.step("constant", [out])
            aten.apply(step, "torch.ops.aten.full.default", [list(out.dims), found.number], {})
        else:
            name = f"constant_{found.digest}"
            value = self.writer.given(name, out.dtype, out.dims, drawn_for(out.dtype))
            self.writer.values[out.original] = value
        return True

    def _each_computed(self, results: Iterator[str]) -> list[str]:
        """Return the results, each a computed value of its own: others are copied."""
        writer, found, seen = self.writer, [], set()
        for name in results:
            value = self._value(name)
            known = name
            if value.name in seen or writer.statements[value.name].expr is None:
                known = writer.fresh(f"{name}_result")
                dtype = stored(value.dtype) if value.dtype in NO_ARITHMETIC else value.dtype
                copy = writer.state(known, value.name, dtype, value.dims, None, NOWHERE)
                writer.values[known] = value = copy
            seen.add(value.name)
            found.append(known)
        return found

    def _results(self) -> Iterator[str]:
        """Yield what the user's results are, then what takes the place of inputs."""
        mutated: list[tuple[int, str, str]] = []
        order = {name: number for number, name in enumerate(self.places)}
        specs = self.member(self.member(self.module, "signature", dict), "output_specs", list)
        count = len(self.member(self.tables[0], "outputs", list))
        if specs and count != len(specs):
            self.fail(f"the graph gives {count} results, and its signature names {len(specs)}")
        for spec in specs:
            tag, held = self.union(spec)
            arg = self.member(held, "arg", dict)
            if tag == "user_output":
                kind, arg = self.union(arg)
                if kind != "as_tensor":
                    self.writer.assumed["results that are no tensors are not compared"] = None
                    continue
            elif tag == "token":
                continue
            name = self.name(arg)
            if name not in self.writer.values:
                self.fail(f"the result `{name}` is given by no node")
            if tag in _MUTATIONS:
                to = self.member(held, _MUTATIONS[tag], str)
                mutated.append((order.get(to, len(order)), to, name))
                continue
            yield name
        for _, to, name in sorted(mutated):
            self.mutations.append(to)
            yield name

    def _changed(self) -> Iterator[str]:
        """Yield the inputs that hold other values at the end, which nodes in place gave them."""
        for name, first in self.given.items():
            if self._value(name).name != first:
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
        if aten.base_name(target) in aten.IGNORED:
            return
        given = list(tensors(self, node))
        outs = list(self._outs(node))
        numbers = list(self._numbers(node))
        if not (outs or numbers) and (node["outputs"] or not given):
            return  # a size, which the tables give, or a check
        self.more = []
        call = call_text(self, node, self._symbol_text)
        args, keywords = self._arguments(node)
        self._check_sizes(node, aten.base_name(target), outs)
        step = self.writer.step(aten.base_name(target), outs, *origin(node))
        changed = []
        if not numbers:
            count = sum(out is not NONE for out in outs)
            changed = written(target, count, given, self._trains(node))
        try:
            if numbers:
                self._computed_numbers(step, numbers, call, given)
            elif changed:
                self._write(step, target, changed, given, (args, keywords, call))
            else:
                aten.apply(step, target, args, keywords, call, self.more)
        except (LastbitError, IndexError, AttributeError, ValueError, TypeError) as error:
            if isinstance(error, ImportedFileError):
                raise
            self.fail(f"its arguments do not fit: {error}")
        if not target.removeprefix("torch.ops.").startswith(_KNOWN) and given and not changed:
            text = f"{step.operator} is taken to write to none of its arguments"
            self.writer.assumed[text] = None
        if not changed:
            names = [out.original for out in outs if out is not NONE]
            sources = [value for _, value in given]
            casts = bool(sources and outs) and self._casts(outs[0], sources[0])
            self.storages.made("cast" if casts else step.operator, call, names, sources)
        for out in outs:
            value = self.writer.values.get(out.original)
            for symbol in {symbol for dim in out.dims for symbol in symbols_of(dim)}:
                if symbol not in self.backed and value is not None:
                    self.made.setdefault(symbol, value)

    def _check_sizes(self, node: Any, operator: str, outs: list[Out]) -> None:
        """Refuse sizes among the arguments that are not those of the result."""
        for one in self.member(node, "inputs", list):
            if one.get("name") in SIZES and len(outs) == 1:
                wrong = misstated(operator, self._argument(one.get("arg")), outs[0].dims)
                if wrong is not None:
                    self.fail(wrong)

    def _trains(self, node: Any) -> bool:
        """Return whether an argument says that a norm takes statistics of what it is given."""
        return any(
            one.get("name") in TRAINING and one.get("arg") == {"as_bool": True}
            for one in self.member(node, "inputs", list)
        )

    def _casts(self, out: Out, source: str) -> bool:
        """Return whether a result of another type is a copy: a view of bits has its own name."""
        return self.writer.values[source].dtype != out.dtype and self.where.endswith(_CASTS)

    def _inline(self, node: Any) -> None:
        """Write out a graph that is called in some mode, such as without gradients."""
        if len(self.tables) > 8:
            self.fail("graphs are nested too deeply")
        inputs = [self.member(one, "arg", dict) for one in self.member(node, "inputs", list)]
        at = next((i for i, arg in enumerate(inputs) if "as_graph" in arg), None)
        if at is None:
            self.fail("it has no inner graph")
        inner = self.member(self.member(inputs[at], "as_graph", dict), "graph", dict)
        given = [(arg, self._argument(arg)) for arg in inputs[at + 1 :]]
        outer, storages, fixed = dict(self.writer.values), self.storages, self.fixed
        self.storages, self.fixed = Storages(), {}
        names = [self.union(arg) for arg in self.member(inner, "inputs", list)]
        for (tag, arg), (from_, value) in zip(names, given, strict=False):
            if tag == "as_tensor" and isinstance(value, Value):
                self.writer.values[self.name(arg)] = value
                self.storages.new(self.name(arg))
                self.fixed[self.storages.count] = self.name(self.union(from_)[1])
        self.tables.append(inner)
        self._graph(inner)
        self.tables.pop()
        found: list[Value | None] = []
        sources: list[tuple[str, str] | None] = []
        for one in self.member(inner, "outputs", list):
            tag, arg = self.union(one)
            name = self.name(arg) if tag == "as_tensor" else ""
            found.append(self._value(name) if name in self.writer.values else None)
            number = self.storages.number.get(name, 0)
            path = " ".join(self.storages.path.get(name, ()))
            sources.append((self.fixed[number], path) if number in self.fixed else None)
        self.writer.values, self.storages, self.fixed = outer, storages, fixed
        outputs = [(tag, arg) for tag, arg in map(self.union, self.member(node, "outputs", list))]
        flat = [a for tag, arg in outputs for a in (arg if tag == "as_tensors" else [arg])]
        for arg, value, source in zip(flat, found, sources, strict=False):
            if value is not None:
                name = self.name(arg)
                self.writer.values[name] = value
                if source is None:
                    self.storages.new(name)
                else:
                    self.storages.view(name, *source)

    # Sizes.

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
