"""A graph cut at its named values: each definition reads other values by name.

Transforms edit definitions; a `Graph` is closed from them for the part that a verdict needs.
So a transform touches what it names and no more, however long the program is.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import lru_cache

from lastbit.graph import Graph, Input, Node, native_rounding, substitute, topological


@dataclass(frozen=True)
class Definitions:
    """Named values, each a node whose `Input` leaves stand for other values.

    Attributes:
        nodes: definition by name; that of an input of the program is its own `Input`.
        outputs: the names of the results.
    """

    nodes: Mapping[str, Node]
    outputs: tuple[str, ...]
    _consumers: dict[str, tuple[str, ...]] = field(default_factory=dict, repr=False, compare=False)

    def __post_init__(self) -> None:
        if self._consumers:
            return
        found: dict[str, list[str]] = {}
        for name, node in self.nodes.items():
            for read in reads(node):
                if read != name:
                    found.setdefault(read, []).append(name)
        self._consumers.update({name: tuple(users) for name, users in found.items()})

    def is_input(self, name: str) -> bool:
        """Return whether a name is an input of the program."""
        node = self.nodes[name]
        return isinstance(node, Input) and node.name == name

    def ref(self, name: str) -> Node:
        """Return the node by which other definitions read a value."""
        return reference(name, self.nodes[name])

    def consumers(self, name: str) -> tuple[str, ...]:
        """Return the values that read `name`, in order."""
        return self._consumers.get(name, ())

    def edited(self, edits: Mapping[str, Node]) -> Definitions:
        """Return the definitions with some replaced or added."""
        nodes = {**self.nodes, **edits}
        consumers = dict(self._consumers)
        for name, node in edits.items():
            old = set(reads(self.nodes[name])) if name in self.nodes else set()
            new = set(reads(node))
            for read in old - new:
                users = consumers.get(read, ())
                consumers[read] = tuple(user for user in users if user != name)
            for read in sorted(new - old - {name}):
                consumers[read] = (*consumers.get(read, ()), name)
        return Definitions(nodes, self.outputs, consumers)

    def closed(self, outputs: Iterable[str], inputs: Iterable[str]) -> Graph:
        """Return the graph of some values, reading others as inputs.

        Args:
            outputs: the values wanted.
            inputs: values that are given from outside; all others are written out, and so is one
                of these that is not rounded.
        """
        wanted = tuple(outputs)
        cut = {name for name in inputs if native_rounding(self.nodes[name])}
        values: dict[str, Node] = {}
        order = _dependencies(self.nodes, wanted, cut)
        for name in order:
            node = self.nodes[name]
            if name in cut or self.is_input(name):
                values[name] = self.ref(name)
                continue
            new = {
                leaf.key: values[leaf.name]
                for leaf in topological([node])
                if isinstance(leaf, Input) and leaf.name in values
            }
            values[name] = substitute([node], new)[node.key]
        return Graph(values, wanted)


@lru_cache(maxsize=1 << 16)
def reads(node: Node) -> tuple[str, ...]:
    """Return the names that a definition reads."""
    return tuple(leaf.name for leaf in topological([node]) if isinstance(leaf, Input))


def reference(name: str, node: Node) -> Node:
    """Return how other definitions read a value: by name, or written out if it is not rounded."""
    if isinstance(node, Input):
        return node
    rounding = native_rounding(node)
    return node if rounding is None else Input(name, rounding.format, shape=node.shape)


def _dependencies(nodes: Mapping[str, Node], wanted: Iterable[str], cut: set[str]) -> list[str]:
    """Return `wanted` and what they read, down to `cut`, each after what it reads."""
    out: list[str] = []
    seen: set[str] = set()
    stack = [(name, False) for name in reversed(tuple(wanted))]
    while stack:
        name, done = stack.pop()
        if done:
            out.append(name)
        elif name not in seen:
            seen.add(name)
            stack.append((name, True))
            if name not in cut:
                stack.extend((read, False) for read in reads(nodes[name]) if read != name)
    return out
