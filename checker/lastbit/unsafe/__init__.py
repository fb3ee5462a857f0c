"""What hazards read: what stands behind the names of a program, and how values are used.

A program is cut at its named values; here a leaf that stands for a named value is seen through.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import Generic, TypeVar

from lastbit.choices import holds_indices
from lastbit.definitions import Definitions
from lastbit.graph import Const, Input, Map, Node, Round, View, topological
from lastbit.patterns import is_map, past_views, replace
from lastbit.patterns.quantized import Quantized, quantized_at
from lastbit.rounding import Rounding
from lastbit.rule import Edits, MismatchError, Site

T = TypeVar("T")

COMPARISONS = ("equal", "less", "less_equal")
NO_INDEX = "the value rounds an integer to a float that may skip it"


@lru_cache(maxsize=1 << 16)
def nodes_of(root: Node) -> tuple[Node, ...]:
    """Return the nodes of a definition, arguments first."""
    return tuple(topological([root]))


@lru_cache(maxsize=1 << 16)
def functions_of(root: Node) -> frozenset[str]:
    """Return the elementwise functions of a definition."""
    return frozenset(node.fn for node in nodes_of(root) if isinstance(node, Map))


def values(program: Definitions) -> Iterator[tuple[str, Node]]:
    """Yield the values that a program computes, with their definitions."""
    for name, node in program.nodes.items():
        if not program.is_input(name):
            yield name, node


def definition_of(program: Definitions, node: Node) -> Node | None:
    """Return the definition of the value that a leaf stands for, or None."""
    if isinstance(node, Input) and not program.is_input(node.name):
        return program.nodes[node.name]
    return None


def behind(program: Definitions, node: Node) -> Node:
    """Return what stands behind names and views."""
    while True:
        node = past_views(node)
        inner = definition_of(program, node)
        if inner is None:
            return node
        node = inner


def bare(program: Definitions, node: Node) -> Node:
    """Return what stands behind names, views and roundings."""
    node = behind(program, node)
    while isinstance(node, Round):
        node = behind(program, node.x)
    return node


def called(node: Node, otherwise: str) -> str:
    """Return how a message calls a node: by the name that it reads, or in other words."""
    node = past_views(node)
    return f"`{node.name}`" if isinstance(node, Input) else otherwise


class Reading(Generic[T]):
    """A fact about each node of a program, from the facts about what the node is made from.

    Every node is visited once; a program may be deeper than the stack.
    """

    def __init__(self, program: Definitions) -> None:
        self.program = program
        self.known: dict[bytes, T] = {}

    def of(self, node: Node) -> T:
        """Return the fact about a node; leaves are seen through."""
        stack = [node]
        while stack:
            top = stack[-1]
            args = self.sources(top)
            missing = [arg for arg in args if arg.key not in self.known]
            if missing and top.key not in self.known:
                stack += missing
                continue
            if top.key not in self.known:
                self.known[top.key] = self.visit(top, [self.known[arg.key] for arg in args])
            stack.pop()
        return self.known[node.key]

    def sources(self, node: Node) -> tuple[Node, ...]:
        """Return the nodes whose facts a node's own follows from."""
        inner = definition_of(self.program, node)
        return node.args if inner is None else (inner,)

    def visit(self, node: Node, facts: list[T]) -> T:
        """Return the fact about a node; of a leaf for a named value, from its definition's."""
        raise NotImplementedError


# Exponentials of differences.


@dataclass(frozen=True, slots=True)
class Shift:
    """An exponential of a difference, as in a softmax.

    Attributes:
        reader: the value whose definition holds the exponential.
        exp: the exponential, `exp` or `exp2`.
        holder: the value whose definition holds the difference.
        difference: `a - b`.
        factor: the constant that the difference is multiplied by, or None.
    """

    reader: str
    exp: Map
    holder: str
    difference: Map
    factor: Const | None


def shifts(program: Definitions) -> Iterator[Shift]:
    """Yield the exponentials of differences of a program."""
    for name, root in values(program):
        if functions_of(root) & {"exp", "exp2"}:
            for node in nodes_of(root):
                if isinstance(node, Map) and node.fn in ("exp", "exp2"):
                    found = _shift(program, name, node)
                    if found is not None:
                        yield found


def _shift(program: Definitions, name: str, exp: Map) -> Shift | None:
    holder, node, factor = name, exp.xs[0], None
    while True:
        match node:
            case Map(fn="sub"):
                return Shift(name, exp, holder, node, factor)
            case Map(fn="mul", xs=(inner, Const() as c)) | Map(fn="mul", xs=(Const() as c, inner)):
                if factor is not None:
                    return None
                node, factor = inner, c
            case Round(x=inner) | View(xs=(inner,)):
                node = inner
            case Input(name=read) if not program.is_input(read):
                holder, node = read, program.nodes[read]
            case _:
                return None


def is_negative_infinity(node: Node) -> bool:
    """Return whether a node is the constant -inf."""
    return isinstance(node, Const) and node.value == -float("inf")


# Quantizations and sums.


def quantizations(program: Definitions) -> Iterator[Quantized]:
    """Yield the quantizations by a scale that comes from a maximum, one for each definition."""
    for name, _ in values(program):
        found = quantization_at(Site(program, (name,)))
        if found is not None:
            yield found


def quantization_at(site: Site) -> Quantized | None:
    """Return the quantization by a scale from a maximum in the site's own definition, or None."""
    if "div" not in functions_of(site.node) or not any(map(_is_on_grid, nodes_of(site.node))):
        return None
    try:
        return quantized_at(site)
    except MismatchError:
        return None


def _is_on_grid(node: Node) -> bool:
    return (
        isinstance(node, Round)
        and node.rounding.format.is_grid
        and node.rounding.format.kind != "scale"
        and is_map(node.x, "div")
    )


def headroom(rounding: Rounding) -> float:
    """Return how many times the largest number of a format still rounds to that number."""
    fmt = rounding.format
    step = 2.0 ** fmt.quantum(fmt.emax)
    return float((fmt.max_finite + step / 2) / fmt.max_finite)


def narrowed_indices(program: Definitions, name: str) -> Iterator[Round]:
    """Yield the roundings of integers to float formats in a definition.

    Integers are inputs of an integer format and the indices of a choice, limited or not.
    """
    for node in nodes_of(program.nodes[name]):
        if isinstance(node, Round) and node.rounding.format.kind == "float":
            inner = bare(program, node.x)
            while is_map(inner, "clamp", "max", "min"):
                inner = bare(program, inner.args[0])
            whole = isinstance(inner, Input) and inner.format.kind == "integer"
            if whole or holds_indices(inner):
                yield node


def widened_indices(site: Site) -> Edits:
    """Return the site with its integers in f32, or in f64.

    Raises:
        MismatchError: it rounds none to a float format.
    """
    root = site.node
    found = list(narrowed_indices(site.program, site.name))
    if not found:
        raise MismatchError(NO_INDEX)
    for node in found:
        wide = "f32" if node.rounding.format.precision < 24 else "f64"
        root = replace(root, node, Round(node.x, Rounding.of(wide)))
    return {site.name: root}
