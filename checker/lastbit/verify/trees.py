"""Graphs that are equal but for how the trees of their sums are written.

`split(8)` and `split(size=512)` are one tree over 4096 elements, and two over fewer: at small sizes
neither equality nor difference of schedules says anything. So schedules are compared by the hashes
of their trees at the true sizes, and everything else at all sizes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from itertools import islice

from lastbit.graph import Graph, Node, Reduce, topological, with_args
from lastbit.schedule import Schedule, Seq, tree_hash
from lastbit.verify.region import Region

MOST_NODES = 4000  # nodes of a graph that is compared
MOST_TERMS = 1 << 17  # of a sum whose tree is hashed


def same_trees(true: Region, others: Iterable[Region]) -> bool:
    """Return whether both sides of a region add alike and are equal in all else.

    Args:
        true: the region at the true sizes; schedules count as equal where their trees are.
        others: the region at other sizes; schedules do not count.
    """
    return _equal(true, _Representative()) and all(_equal(other, _none) for other in others)


class _Representative:
    """Maps the schedule of a sum to the first one met that has its tree."""

    def __init__(self) -> None:
        self.first: dict[tuple[int, int], Schedule] = {}

    def __call__(self, node: Reduce, schedule: Schedule) -> Schedule:
        assert node.acc is not None
        if node.length > MOST_TERMS:
            return schedule
        tree = tree_hash(schedule, node.length, node.acc.format.short)
        return self.first.setdefault((node.length, tree), schedule)


def _none(node: Reduce, schedule: Schedule) -> Schedule:
    return Seq()


def _equal(region: Region, schedule_of: Callable[[Reduce, Schedule], Schedule]) -> bool:
    graphs = (region.before, region.after)
    sizes = [sum(1 for _ in islice(topological(g.results), MOST_NODES + 1)) for g in graphs]
    if sizes[0] != sizes[1] or sizes[0] > MOST_NODES:
        return False
    before, after = (_keys(graph, schedule_of) for graph in graphs)
    return before == after


def _keys(graph: Graph, schedule_of: Callable[[Reduce, Schedule], Schedule]) -> tuple[bytes, ...]:
    """Return the keys of the results, with other schedules in place of those of the sums."""
    out: dict[bytes, Node] = {}
    for node in topological(graph.results):
        new = with_args(node, out)
        if isinstance(new, Reduce) and new.schedule is not None:
            new = Reduce(new.op, new.x, new.axis, schedule_of(new, new.schedule), new.acc)
        out[node.key] = new
    return tuple(out[root.key].key for root in graph.results)
