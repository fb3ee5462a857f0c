"""Give a sum in any order one order, so that it has one result."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

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
    """Return a region in which sums in any order run forwards before, and backwards after.

    So two graphs whose sums have no order show two results of one set.
    """
    return Region(_ordered(region.before, False), _ordered(region.after, True))


def _ordered(graph: Graph, backwards: bool) -> Graph:
    out: dict[bytes, Node] = {}
    for node in topological(graph.values.values()):
        new = with_args(node, out)
        if isinstance(new, Reduce) and new.schedule is not None and not deterministic(new.schedule):
            schedule = _with_order(new.schedule, _count(new), backwards)
            new = Reduce(new.op, new.x, new.axis, schedule, new.acc)
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
