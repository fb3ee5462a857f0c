"""Build a program from a printed graph, with some values read before their rounding.

Every node is stated as the table of operators states it. A node whose narrow result is read
unrounded somewhere is stated a second time, in float32, which is what Inductor computes in; what
only moves elements, or casts, between the two is stated twice as well.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from lastbit.errors import LastbitError
from lastbit.importers import aten
from lastbit.importers.imported import Imported, ImportedFileError, Size, Value
from lastbit.importers.inductor.fx import Graph, Node, Ref
from lastbit.importers.inductor.matching import NARROW
from lastbit.importers.inductor.meanings import base_word, is_cast, is_move
from lastbit.importers.writer import Out, Writer
from lastbit.plan_model import Span

LARGEST = 2000  # of a symbol: the file does not say which sizes it takes
WIDE = "f32"
ROUNDS = "rounded at each node of the graph"
KEPT = "computed in f32, literals included, and rounded where a kernel stores"

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
                elif self.unrounded(node.name, read):
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
                elif not self.unrounded(node.name, read):
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
            if held is None or is_move(node) or node.dtype is None:
                self._state(node, False)
            else:
                self._rounded(node, held)

    def _rounded(self, node: Node, held: Value) -> None:
        """State the rounded form of a value that is stated unrounded: what a store does."""
        out = self._out(node, node.dtype or WIDE, self._original(node.name, False))
        step = self.writer.step(aten.base_name(node.target), [out], node.place)
        if held.dtype == out.dtype:
            step.same(held)
        else:
            step.give(held.name)
        self.made[node.name, False] = self.writer.values[out.original]

    def _state(self, node: Node, wide: bool) -> None:
        outs, names = [], []
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
            dtype = WIDE if wide and node.dtype in NARROW else node.dtype
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
            wide = self.unrounded(node.name, read)
        for key in ((read, wide), (read, not wide)):
            if key in self.made:
                return self.made[key]
        cause = f"`{node.name}` reads `{read}`, which no operator gives"
        raise ImportedFileError(self.graph.file, cause, "")


def _index(node: Node) -> int:
    number = node.args[1] if len(node.args) > 1 else 0
    return number if isinstance(number, int) and 0 <= number < 64 else 0


def word_of(node: Node) -> str:
    """Return the operator of a node without its overload, `mm` for `aten.mm.default`."""
    return base_word(node.target)
