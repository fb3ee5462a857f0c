"""Which values of a graph the kernels read before they are rounded.

The loop bodies say it for each reading; where none shows one, reader and value in one kernel are
taken to be so. A value that only moves, or is chosen among others, is rounded where these are.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence

from lastbit.importers.inductor.fx import Graph, Node
from lastbit.importers.inductor.matching import NARROW, Readings
from lastbit.importers.inductor.meanings import (
    Meanings,
    is_cast,
    is_choice,
    is_held_number,
    is_move,
)


class Unrounded:
    """Answers for a graph whether a node reads a value without the roundings of the graph.

    Args:
        graph: the graph before fusion.
        meanings: of its nodes.
        numbers: says what a meaning is.
        readings: how the loop bodies read values; None where there are no loop bodies.
        in_kernels: for each node the kernels that it went into.
        emulated: whether Inductor was told to keep every rounding.

    Attributes:
        assumed: the readings that no loop body shows.
    """

    def __init__(
        self,
        graph: Graph,
        meanings: Mapping[str, int],
        numbers: Meanings,
        readings: Readings | None,
        in_kernels: Mapping[str, Sequence[str]],
        emulated: bool,
    ) -> None:
        self.graph, self.meanings, self.numbers = graph, meanings, numbers
        self.readings, self.in_kernels, self.emulated = readings, in_kernels, emulated
        self.assumed: set[tuple[str, str]] = set()
        self.known: dict[tuple[str, str], bool] = {}
        self.rounded = _rounded(graph)

    def __call__(self, reader: str, read: str) -> bool:
        """Return whether a node reads a value without the roundings of the graph before.

        Args:
            reader: the node; empty: the value is returned.
            read: what it names among its arguments.
        """
        key = reader, read
        if key not in self.known:
            self.known[key] = self._unrounded(reader, read)
        return self.known[key]

    def _unrounded(self, reader: str, read: str) -> bool:
        rounded = self.rounded[read]
        if rounded is None or not rounded.target:
            return False
        wanted = self.meanings[read]
        if not reader or not self._is_computed(reader):
            return self._stored_unrounded(read, wanted)
        if self.readings is not None:
            found = [
                self.readings.edges[part, wanted]
                for part in self._inside(reader, wanted)
                if (part, wanted) in self.readings.edges
            ]
            if found:
                return any(False in one for one in found)
        if self.emulated:
            return False
        together = self._together(reader, rounded.name)
        if together:
            self.assumed.add((reader, read))
        return together

    def _inside(self, reader: str, wanted: int) -> Iterator[int]:
        """Yield what a node computes and what that is put together of, down to what it reads."""
        node = self.graph.nodes[reader]
        stop = {self.meanings[name] for name in node.reads}
        stack = [self.meanings[reader]]
        if node.target.startswith(("aten.var", "aten.std")):
            stack.append(self.numbers.of("reduce", "sum", wanted))
        yield from parts_of(self.numbers, stack, stop)

    def _is_computed(self, name: str) -> bool:
        """Return whether a node is computed inside a loop, not by a library call."""
        word = self.graph.nodes[name].target.split(".")[1:2]
        if self.readings is not None and word and word[0] in self.readings.calls.values():
            return False
        if self.readings is not None and self.meanings[name] in self.readings.known:
            return True
        kernels = self.in_kernels.get(name, ())
        return any(not is_library(kernel) for kernel in kernels)

    def _stored_unrounded(self, read: str, wanted: int) -> bool:
        """Return whether a buffer of a wide format holds a value that was to be rounded first."""
        dtype = self.graph.nodes[read].dtype
        if self.readings is None or dtype in NARROW or dtype is None:
            return False
        return False in self.readings.stored.get((wanted, dtype), {})

    def _together(self, reader: str, read: str) -> bool:
        """Return whether one kernel of Inductor's own holds both nodes."""
        own = {k for k in self.in_kernels.get(reader, ()) if not is_library(k)}
        return not own.isdisjoint(self.in_kernels.get(read, ()))


def parts_of(numbers: Meanings, start: list[int], stop: set[int]) -> Iterator[int]:
    """Yield meanings and what they are put together of, down to inputs, calls and `stop`."""
    seen: set[int] = set()
    stack = list(start)
    while stack:
        one = stack.pop()
        if one in seen or one in stop:
            continue
        seen.add(one)
        yield one
        word, *parts = numbers.facts(one)
        if word not in ("input", "number", "call"):
            stack += [part for part in parts if type(part) is int]


def is_library(kernel: str) -> bool:
    """Return whether a kernel is a function of a library."""
    return kernel.startswith(("extern_kernels.", "torch.ops.", "aten."))


def _rounded(graph: Graph) -> dict[str, Node | None]:
    """Return for each node the last one at which its value is rounded to a narrow format."""
    found: dict[str, Node | None] = {}
    for node in graph.nodes.values():
        passes = is_move(node) or is_cast(node)
        own = node.dtype in NARROW and (not passes or (is_cast(node) and _narrows(graph, node)))
        own = own and not is_held_number(node)  # there is nothing to round
        before = found[node.reads[0]] if passes and node.reads else None
        found[node.name] = node if own else before
    return found


def roundings(graph: Graph, name: str, unrounded: Callable[[str, str], bool]) -> Iterator[Node]:
    """Yield the nodes that round what a node passes on, from the last to where it is computed.

    Args:
        graph: the graph.
        name: of the node.
        unrounded: says of a node that chooses among its operands which it reads unrounded.
    """
    while True:
        node = graph.nodes[name]
        if is_choice(node, graph):  # rounds nothing itself
            for read in node.reads:
                if unrounded(name, read):
                    yield from roundings(graph, read, unrounded)
            return
        passes = is_move(node) or is_cast(node)
        rounds = not passes or (is_cast(node) and _narrows(graph, node))
        if node.dtype in NARROW and rounds and not is_held_number(node):
            yield node
        if not passes or not node.reads:
            return
        name = node.reads[0]


def _narrows(graph: Graph, node: Node) -> bool:
    return graph.nodes[node.reads[0]].dtype != node.dtype if node.reads else False
