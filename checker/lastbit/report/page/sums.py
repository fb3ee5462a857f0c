"""The sums of a witness whose order differs, with the value at every addition of both trees.

The values are those of the exact domain, on the witness's own inputs.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from lastbit.formats import Exact, identical
from lastbit.graph import Graph, Map, Reduce, topological
from lastbit.interpret.evaluate import evaluate
from lastbit.interpret.exact import ExactDomain, ExactTree, Objects, elementwise
from lastbit.interpret.policy import Policy
from lastbit.reals import FUNCTIONS
from lastbit.schedule import Fused, deterministic, fold, levels

MOST_TERMS = 24
MOST_ELEMENTS = 4096  # of any tensor before a sum whose values are computed
MOST_FUNCTIONS = 8
CHEAP = {"add", "sub", "mul", "div", "neg", "abs", "max", "min"}  # rational, of few digits


@dataclass(frozen=True, slots=True)
class Sum:
    """A value of a tree.

    Attributes:
        word: `zero`, a term's number, or the format that a sum is rounded to.
        parts: what it is made of; of a term, nothing.
        array: its values in all sums of the reduction; None where none are computed.
        exact: the same before the rounding.
    """

    word: str
    parts: tuple[Sum, ...] = ()
    array: Objects | None = None
    exact: Objects | None = None

    def value(self, index: tuple[int, ...]) -> Exact | None:
        """Return the value in one sum; None where it is not computed, or only enclosed."""
        return _known(self.array, index)

    def loses(self, index: tuple[int, ...]) -> bool:
        """Return whether the rounding of this addition lost something in one sum."""
        before, after = _known(self.exact, index), _known(self.array, index)
        return before is not None and after is not None and not identical(before, after)


@dataclass(frozen=True, slots=True)
class Pair:
    """One sum by two trees.

    Attributes:
        schedules: their texts.
        roots: the results.
        index: which of the sums of the reduction is meant: the first that differs.
    """

    schedules: tuple[str, str]
    roots: tuple[Sum, Sum]
    index: tuple[int, ...]


class _Keeping:
    """The algebra of a schedule that keeps every value; without `exact`, only the tree."""

    def __init__(self, exact: ExactTree | None) -> None:
        self.exact = exact

    def zero(self, fmt: str) -> Sum:
        return Sum("zero", (), None if self.exact is None else self.exact.zero(fmt))

    def leaf(self, i: int) -> Sum:
        return Sum(str(i), (), None if self.exact is None else self.exact.leaf(i))

    def add(self, a: Sum, b: Sum, fmt: str) -> Sum:
        parts = tuple(part for part in (a, b) if part.word != "zero")
        if self.exact is None or a.array is None or b.array is None:
            return Sum(fmt, parts) if len(parts) == 2 else parts[0] if parts else a
        total = elementwise(FUNCTIONS["add"], a.array, b.array)
        value = self.exact.convert(total, fmt)
        if len(parts) < 2 and (not parts or _alike(value, parts[0].array)):
            return parts[0] if parts else a
        return Sum(fmt, parts, value, total)

    def convert(self, value: Sum, fmt: str) -> Sum:
        if self.exact is None or value.array is None:
            return Sum(fmt, (value,))
        rounded = self.exact.convert(value.array, fmt)
        return value if _alike(rounded, value.array) else Sum(fmt, (value,), rounded, value.array)

    def fused(self, acc: Sum, terms: list[Sum], machine: str, fmt: str) -> Sum:
        return Sum(f"{machine} {fmt}", (*(() if acc.word == "zero" else (acc,)), *terms))

    def any_order(self, values: list[Sum], fmt: str) -> Sum:
        return Sum(f"{fmt} in any order", tuple(values))


def differing_sums(before: Graph, after: Graph, inputs: Mapping[str, Objects]) -> Iterator[Pair]:
    """Yield the sums of two graphs that are the same but for their order.

    Where the graphs have different numbers of sums, none is known to be the same.

    Args:
        before: a graph.
        after: a graph.
        inputs: the values of their inputs.
    """
    sides = [list(_sums(graph)) for graph in (before, after)]
    if len(sides[0]) != len(sides[1]):
        return
    for one, two in zip(*sides, strict=True):
        is_same = one.schedule == two.schedule and one.acc == two.acc
        if not is_same and one.x.shape == two.x.shape and one.length <= MOST_TERMS:
            is_known = _is_computed(one) and _is_computed(two)
            roots = (_root(one, inputs, is_known), _root(two, inputs, is_known))
            yield Pair((str(one.schedule), str(two.schedule)), roots, _first(*roots))


def _sums(graph: Graph) -> Iterator[Reduce]:
    for node in topological(graph.results):
        if isinstance(node, Reduce) and node.op == "sum" and node.acc is not None:
            yield node


def _is_computed(node: Reduce) -> bool:
    schedule = node.schedule
    assert schedule is not None
    # The products of a matrix unit are more than their exact values: its tree is drawn without.
    if not deterministic(schedule) or any(isinstance(x, Fused) for x in levels(schedule)):
        return False
    below = list(topological([node.x]))
    functions = [x.fn for x in below if isinstance(x, Map)]
    # A file made by hand may hold what takes hours; a figure is not worth that.
    return (
        set(functions) <= CHEAP
        and len(functions) <= MOST_FUNCTIONS
        and all(math.prod(x.shape) <= MOST_ELEMENTS for x in below)
        and all(x.op in {"sum", "max", "min"} for x in below if isinstance(x, Reduce))
    )


def _root(node: Reduce, inputs: Mapping[str, Objects], is_known: bool) -> Sum:
    assert node.schedule is not None
    assert node.acc is not None
    exact = None
    if is_known:
        domain = ExactDomain(inputs)
        (terms,) = evaluate([node.x], domain, Policy.BITS)
        array = np.broadcast_to(terms.array, node.x.shape)
        exact = ExactTree(domain, np.moveaxis(array, node.axis, 0), node.acc)
    return fold(node.schedule, node.length, node.acc.format.short, _Keeping(exact))


def _first(one: Sum, two: Sum) -> tuple[int, ...]:
    """Return the first index at which two results differ, else the first one."""
    if one.array is None or two.array is None:
        return ()
    pairs = [(index, one.value(index), two.value(index)) for index in np.ndindex(one.array.shape)]
    for index, a, b in pairs:
        if a is not None and b is not None and not identical(a, b):
            return index
    return pairs[0][0]


def _known(array: Objects | None, index: tuple[int, ...]) -> Exact | None:
    return None if array is None else _number(array[index])


def _number(value: object) -> Exact | None:
    return value if isinstance(value, (Fraction, float)) else None


def _alike(one: Objects, two: Objects | None) -> bool:
    if two is None:
        return False
    pairs = [(_number(one[index]), _number(two[index])) for index in np.ndindex(one.shape)]
    return all(a is not None and b is not None and identical(a, b) for a, b in pairs)
