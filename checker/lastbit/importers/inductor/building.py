"""Build a program from a printed graph, with some values read before their rounding.

Every node is stated as the table of operators states it. A node whose narrow result is read
unrounded somewhere is stated a second time, in float32, which is what Inductor computes in; what
only moves elements, or casts, between the two is stated twice as well.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Any

from lastbit.errors import LastbitError
from lastbit.formats import format_of
from lastbit.importers import aten
from lastbit.importers.imported import Imported, ImportedFileError, Size, Value
from lastbit.importers.inductor.fx import Graph, Node, Ref
from lastbit.importers.inductor.matching import NARROW
from lastbit.importers.inductor.meanings import CASTS, base_word, is_cast, is_choice, is_move
from lastbit.importers.writer import Out, Writer
from lastbit.plan_model import Span
from lastbit.rounding import Rounding

LARGEST = 2000  # of a symbol: the file does not say which sizes it takes
WIDE = "f32"
ROUNDS = "rounded at each node of the graph"
KEPT = "computed in f32, literals included, and rounded where a kernel stores"

_HELD = re.compile(r"(?:(?:reshape|broadcast|transpose)\()*(?:sum|max|min|round)\(", re.ASCII)

# Whether the node (by name) reads a node (by name) unrounded.
Unrounded = Callable[[str, str], bool]


def program_of(
    graph: Graph,
    shown: str,
    unrounded: Unrounded | None = None,
    renamed: dict[str, str] | None = None,
) -> Imported:
    """Return the program of a graph.

    Args:
        graph: the graph.
        shown: as a report names the file.
        unrounded: says of a reader and what it reads whether that is not rounded before; None:
            every value is rounded to its format.
        renamed: other names for nodes.

    Raises:
        ImportedFileError: a node has arguments that its operator cannot take.
    """
    return _Builder(graph, shown, unrounded, renamed or {}).imported()


def result_names(first: Graph, second: Graph, shown: str) -> dict[str, str]:
    """Return the names that results had in a graph, where Inductor's passes gave them others.

    Raises:
        ImportedFileError: the graphs return different numbers of results.
    """
    if len(first.results) != len(second.results):
        cause = (
            f"it returns {len(second.results)} results after Inductor's own passes, and "
            f"{len(first.results)} before"
        )
        raise ImportedFileError(shown, cause, "The two files are of two graphs.")
    pairs = zip(second.results, first.results, strict=True)
    return {new: old for new, old in pairs if new != old and old not in second.nodes}


class _Builder:
    def __init__(
        self, graph: Graph, shown: str, unrounded: Unrounded | None, renamed: dict[str, str]
    ) -> None:
        self.graph, self.shown, self.renamed = graph, shown, renamed
        self.unrounded = unrounded or (lambda reader, read: False)
        devices = {node.device for node in graph.nodes.values()}
        device = "cuda" if any("cuda" in one for one in devices) else "cpu"
        # The table of operators rounds literals on a CPU first; a kernel of Inductor does not.
        self.writer = Writer(shown, device if unrounded is None else "inductor")
        self.writer.reserve(graph.symbols)
        self.made: dict[tuple[str, bool], Value] = {}
        self.wide = self._wide()
        self.narrow = self._narrow()
        self.items: dict[str, dict[int, Node]] = {}
        for node in graph.nodes.values():
            if node.target == "getitem" and isinstance(node.args[0], Ref):
                self.items.setdefault(node.args[0].name, {})[_index(node)] = node

    def _passes_on(self, node: Node) -> bool:
        return is_move(node) or is_cast(node)

    def _wide(self) -> set[str]:
        """Return the nodes that somebody reads unrounded."""
        found: set[str] = set()
        for node in reversed(self.graph.nodes.values()):
            for read in node.reads:
                if self.graph.nodes[read].dtype not in NARROW and not (
                    self._passes_on(self.graph.nodes[read])
                ):
                    continue
                if self._passes_on(node):
                    if node.name in found:
                        found.add(read)
                elif self.unrounded(node.name, read) and not (
                    is_choice(node, self.graph) and node.name not in found
                ):
                    found.add(read)
        for name in self.graph.results:
            if self.unrounded("", name):
                found.update(self._chain(name))
        return found

    def _chain(self, name: str) -> Iterable[str]:
        """Yield a node and what it passes on."""
        while True:
            yield name
            node = self.graph.nodes[name]
            if not self._passes_on(node) or not node.reads:
                return
            name = node.reads[0]

    def _narrow(self) -> set[str]:
        """Return the nodes that somebody reads rounded, or that are results."""
        found = {name for name in self.graph.results if not self.unrounded("", name)}
        for node in reversed(self.graph.nodes.values()):
            for read in node.reads:
                if self._passes_on(node):
                    if node.name in found:
                        found.add(read)
                elif not self.unrounded(node.name, read) or (
                    is_choice(node, self.graph) and node.name in found
                ):
                    found.add(read)
        return found

    def imported(self) -> Imported:
        for node in self.graph.nodes.values():
            if not node.target:
                out = self._out(node, node.dtype or WIDE, node.name)
                value = self.writer.input(out, node.place)
                self.made[node.name, False] = self.made[node.name, True] = value
            elif node.target != "getitem" or self._taken(node):
                self._node(node)
        results = [name for name in self.graph.results if self._original(name, False)]
        names = []
        for name in dict.fromkeys(results):
            if not self.graph.nodes[name].target:
                self._returned(self.graph.nodes[name])
        for name in dict.fromkeys(results):
            if not self.graph.nodes[name].target:
                names.append(self._returned_as(name))
                continue
            unread = self.unrounded("", name)
            names.append(self._original(name, unread and name in self.wide))
        known = [name for name in names if name in self.writer.values]
        symbols = {name: Span(2, LARGEST, LARGEST) for name in self.graph.symbols}
        if symbols:
            self.writer.assumed[f"assumed {', '.join(symbols)} in [2, {LARGEST}]"] = None
        self.writer.assumed[ROUNDS if self.unrounded is None else KEPT] = None
        found = self.writer.imported(known, symbols)
        if not found.program.outputs:
            raise ImportedFileError(self.shown, "the graph computes nothing", "Name another graph.")
        return found

    def _returned(self, node: Node) -> None:
        """State an input that is a result: what was computed before the passes, or itself."""
        out = self._out(node, node.dtype or WIDE, self._returned_as(node.name))
        self.writer.step("returned", [out], node.place).give(self.made[node.name, False].name)

    def _returned_as(self, name: str) -> str:
        return self.renamed.get(name, f"{name}__returned")

    def _taken(self, node: Node) -> bool:
        """Return whether a `getitem` is a statement of its own: a part of a value that exists."""
        return (self._source(node), False) in self.made

    def _source(self, node: Node) -> str:
        return node.args[0].name if isinstance(node.args[0], Ref) else ""

    def _original(self, name: str, wide: bool) -> str:
        name = self.renamed.get(name, name)
        return f"{name}__unrounded" if wide and name in self.narrow else name

    def _out(self, node: Node, dtype: str, name: str) -> Out:
        return Out(name, dtype, node.dims)

    def _node(self, node: Node) -> None:
        if aten.base_name(node.target) in aten.IGNORED:
            return
        if node.name in self.wide:
            self._state(node, True)
        # What somebody reads unrounded, and nobody rounded, is not stated a second time.
        if node.name in self.narrow or node.name not in self.wide:
            held = self.made.get((node.name, True))
            if held is None or node.dtype is None or self._again(node):
                self._state(node, False)
            else:
                self._rounded(node, held)

    def _again(self, node: Node) -> bool:
        """Return whether the rounded form is what its operands, rounded, give."""
        return is_move(node) or is_choice(node, self.graph)

    def _rounded(self, node: Node, held: Value) -> None:
        """State the rounded form of a value that is stated unrounded: what a store does."""
        out = self._out(node, node.dtype or WIDE, self._original(node.name, False))
        step = self.writer.step(aten.base_name(node.target), [out], node.place)
        if held.dtype == out.dtype:
            step.same(held)
        else:
            step.give(held.name)
        self.made[node.name, False] = self.writer.values[out.original]

    def _is_computed_wide(self, node: Node) -> bool:
        """Return whether a narrow result is computed of values that were not rounded before."""
        if node.dtype not in NARROW or self._passes_on(node):
            return False
        if base_word(node.target) in CASTS:  # rounds what it reads, and nothing in between
            return False
        return any(
            self.graph.nodes[read].dtype in NARROW
            and self._value(node, read, False).dtype not in NARROW
            for read in node.reads
        )

    def _stored(self, out: Out, dtype: str) -> None:
        """Round a result that was stated in float32 to its format, as a store does.

        So there are two roundings, and both count: an operator on values that were not rounded
        is no operator between numbers of the narrow format, of which one would do.
        """
        writer = self.writer
        value = writer.values[out.original]
        if writer.origins[value.name].original != out.original:  # another value, as it is
            writer.step("store", [replace(out, dtype=dtype)]).give(value.name)
            return
        st = writer.statements[value.name]
        expr = st.expr
        if expr is not None and not _is_held(expr):
            expr = f"round({expr}, {WIDE})"
        rounding = Rounding.of(format_of(dtype))
        writer.statements[value.name] = replace(st, expr=expr, rounding=rounding)
        writer.values[out.original] = replace(value, dtype=dtype)

    def _state(self, node: Node, wide: bool) -> None:
        outs, names = [], []
        stored = not wide and self._is_computed_wide(node)
        parts = self.items.get(node.name)
        if node.dtype is None and parts:
            for number in range(min(max(parts) + 1, 64)):
                part = parts.get(number)
                names.append(part.name if part is not None else None)
                if part is None or part.dtype is None:
                    outs.append(Out("none", "f32", ("0",)))
                else:
                    outs.append(self._out(part, part.dtype, self._original(part.name, False)))
        elif node.dtype is not None:
            dtype = WIDE if (wide or stored) and node.dtype in NARROW else node.dtype
            outs.append(self._out(node, dtype, self._original(node.name, wide)))
            names.append(node.name)
        else:
            return
        step = self.writer.step(aten.base_name(node.target), outs, node.place)
        try:
            args = [self._argument(node, arg, wide) for arg in node.args]
            keywords = {k: self._argument(node, arg, wide) for k, arg in node.keywords.items()}
            aten.apply(step, node.target, args, keywords)
        except (LastbitError, IndexError, AttributeError, ValueError, TypeError) as error:
            if isinstance(error, ImportedFileError):
                raise
            cause = f"the arguments of `{node.name}` ({node.target}) do not fit: {error}"
            raise ImportedFileError(self.graph.file, cause, "") from None
        if stored:
            self._stored(outs[0], node.dtype or WIDE)
        for name, out in zip(names, outs, strict=True):
            if name is not None and out.original in self.writer.values:
                self.made[name, wide] = self.writer.values[out.original]

    def _argument(self, node: Node, arg: Any, wide: bool) -> object:
        if isinstance(arg, Ref):
            return self._value(node, arg.name, wide)
        if isinstance(arg, list | tuple):
            return [self._argument(node, one, wide) for one in arg]
        if isinstance(arg, str) and not isinstance(arg, Size):
            return None if arg.startswith("torch.") else arg
        return arg

    def _value(self, node: Node, read: str, wide: bool) -> Value:
        if not self._passes_on(node):
            plain = is_choice(node, self.graph) and not wide
            wide = not plain and self.unrounded(node.name, read)
        for key in ((read, wide), (read, not wide)):
            if key in self.made:
                return self.made[key]
        cause = f"`{node.name}` reads `{read}`, which no operator gives"
        raise ImportedFileError(self.graph.file, cause, "")


def _is_held(expr: str) -> bool:
    """Return whether an expression is a sum, an extreme or a rounding as a whole: one of f32."""
    match = _HELD.match(expr)
    if match is None:
        return False
    depth = 0
    for at in range(expr.index("("), len(expr)):
        depth += (expr[at] == "(") - (expr[at] == ")")
        if not depth:
            return at == len(expr) - 1
    return False


def _index(node: Node) -> int:
    number = node.args[1] if len(node.args) > 1 else 0
    return number if isinstance(number, int) and 0 <= number < 64 else 0


def word_of(node: Node) -> str:
    """Return the operator of a node without its overload, `mm` for `aten.mm.default`."""
    return base_word(node.target)
