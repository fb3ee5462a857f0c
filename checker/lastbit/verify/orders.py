"""Give a sum in any order one order, and equal elements another, so that there is one result."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from lastbit.choices import Ties, choice_of, is_unordered, with_ties
from lastbit.graph import Graph, Node, Reduce, topological, with_args
from lastbit.schedule import (
    AnyOrder,
    Level,
    Nested,
    Schedule,
    Seq,
    deterministic,
    fold,
    tree_of_pairs,
)
from lastbit.verify.region import Region


def in_order(region: Region) -> Region:
    """Return a region in which whatever has no order has one.

    Sums in any order run forwards before, and backwards after: two graphs whose sums have no order
    show two results of one set. Where the sums of one side only have none, they run backwards.

    Of equal elements whose order is not promised the last comes first, on both sides; or the first,
    where one side promises that it is the last.
    """
    sides = region.before, region.after
    nodes = [node for graph in sides for node in _nodes(graph) if isinstance(node, Reduce)]
    if not any(_unordered(node) or is_unordered(node.op) for node in nodes):
        return region
    choices = [choice_of(node.op) for node in nodes]
    ties: Ties = "first" if any(c is not None and c.ties == "last" for c in choices) else "last"
    both = any(map(_unordered, _nodes(region.after)))
    return Region(_ordered(region.before, not both, ties), _ordered(region.after, True, ties))


def _nodes(graph: Graph) -> Iterator[Node]:
    return topological(graph.values.values())


def _unordered(node: Node) -> bool:
    return (
        isinstance(node, Reduce) and node.schedule is not None and not deterministic(node.schedule)
    )


def _ordered(graph: Graph, backwards: bool, ties: Ties) -> Graph:
    out: dict[bytes, Node] = {}
    for node in _nodes(graph):
        new = with_args(node, out)
        if isinstance(new, Reduce) and _unordered(new):
            assert new.schedule is not None
            schedule = _with_order(new.schedule, _count(new), backwards)
            new = Reduce(new.op, new.x, new.axis, schedule, new.acc)
        elif isinstance(new, Reduce) and is_unordered(new.op):
            new = Reduce(with_ties(new.op, ties), new.x, new.axis)
        out[node.key] = new
    return Graph({name: out[node.key] for name, node in graph.values.items()}, graph.outputs)


def _with_order(schedule: Schedule, count: int, backwards: bool) -> Schedule:
    if isinstance(schedule, AnyOrder):
        if not backwards or count < 2:
            return Seq(acc=schedule.acc)
        nested: Nested = ()
        for i in range(count - 1, -1, -1):
            nested = (nested, i)
        return tree_of_pairs(nested, schedule.acc)
    changes: dict[str, Any] = {
        name: _with_order(level, count, backwards)
        for name in ("inner", "outer")
        if isinstance(level := getattr(schedule, name, None), Level)
    }
    return replace(schedule, **changes) if changes else schedule


class _Counter:
    """An algebra that notes how many values are added in any order."""

    def __init__(self) -> None:
        self.count = 0

    def zero(self, fmt: str) -> None:
        return None

    def leaf(self, i: int) -> None:
        return None

    def add(self, a: None, b: None, fmt: str) -> None:
        return None

    def fused(self, acc: None, terms: list[None], machine: str, fmt: str) -> None:
        return None

    def convert(self, value: None, fmt: str) -> None:
        return None

    def any_order(self, values: list[None], fmt: str) -> None:
        self.count = max(self.count, len(values))


def _count(node: Reduce) -> int:
    """Return the number of values that a sum adds in any order; 0 where its order is fixed."""
    assert node.schedule is not None
    assert node.acc is not None
    counter = _Counter()
    fold(node.schedule, node.length, node.acc.format.short, counter)
    return counter.count
