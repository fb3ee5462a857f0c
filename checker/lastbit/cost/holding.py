"""What a block of threads holds while it computes its tile.

It holds the blocks of the operands of each sum that it adds up, once for each buffer, for as long
as that sum runs; the running sums; and an operand that a reduction reads and that is needed again
afterwards. A sum in the terms of another sum runs while the other one does.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from heapq import heappop, heappush

from lastbit.cost.counting import place
from lastbit.cost.placement import Tile
from lastbit.cost.reading import Index, Loop, Need, needs_of
from lastbit.cost.stored import bytes_of
from lastbit.graph import Input, Map, Node, Reduce, topological

REAL_BYTES = 4  # what stands between two roundings is held in f32


@dataclass(frozen=True, slots=True)
class Held:
    """What a block holds.

    Attributes:
        operands: bytes of operands, all buffers included.
        accumulators: bytes of running sums, which may lie in registers.
        known: whether the tile says how much that is.
    """

    operands: int
    accumulators: int
    known: bool

    @property
    def bytes(self) -> int | None:
        """Return all of it; None where the tile does not say."""
        return self.operands + self.accumulators if self.known else None


def held(roots: Iterable[Node], tile: Tile) -> Held:
    """Return what a block of a kernel holds.

    Args:
        roots: the definitions that the kernel returns, with what is computed inside written out.
        tile: the tile in which it works.
    """
    nodes = list(roots)
    needs = [need for node in nodes for need in needs_of(node)]
    return Held(_operands(needs, tile), _accumulators(nodes, needs, tile), _known(needs, tile))


def _known(needs: Iterable[Need], tile: Tile) -> bool:
    if not tile.cuts:
        return False
    loops = {loop for need in needs for loop in (*need.result, *need.loops) if loop.length > 1}
    open_ = {-1: tile.columns is None, -2: tile.rows is None}
    return not any(open_.get(loop.place, loop.sums and tile.depth is None) for loop in loops)


def _operands(needs: Iterable[Need], tile: Tile) -> int:
    """Return the bytes of operands: those of the sums that need most, and those needed again."""
    clusters = _Clusters()
    by_sum: dict[tuple[str, object], tuple[Loop, int]] = {}
    again: dict[tuple[str, object], tuple[set[frozenset[Loop]], int]] = {}
    for need in needs:
        clusters.join([loop for loop in (*need.loops, *need.outer) if loop.sums])
        if not isinstance(need.node, Input):
            continue
        found = place(need, tile)
        size = bytes_of(found.block, need.node.format)
        reductions = frozenset(loop for loop in need.loops if loop.place > 0)
        sums = sorted(loop for loop in reductions if loop.sums)
        if sums:
            key = (need.node.name, found.key)
            by_sum[key] = (sums[0], max(size, by_sum.get(key, (None, 0))[1]))
        place_ = (need.node.name, (found.key, found.box))
        stages, most = again.setdefault(place_, (set(), 0))
        again[place_] = (stages | {reductions}, max(size, most))
    totals: dict[Loop, int] = {}
    for loop, size in by_sum.values():
        first = clusters.first(loop)
        totals[first] = totals.get(first, 0) + size
    in_sums = {name for name, _ in by_sum}
    kept = sum(
        size
        for (name, _), (stages, size) in again.items()
        if len(stages) > 1 and name not in in_sums
    )
    return max(totals.values(), default=0) * tile.buffers + kept


class _Clusters:
    """Loops of sums that run at the same time."""

    def __init__(self) -> None:
        self._next: dict[Loop, Loop] = {}

    def first(self, loop: Loop) -> Loop:
        while loop in self._next:
            loop = self._next[loop]
        return loop

    def join(self, loops: list[Loop]) -> None:
        firsts = sorted({self.first(loop) for loop in loops})
        self._next.update((loop, firsts[0]) for loop in firsts[1:])


def _accumulators(roots: list[Node], needs: Iterable[Need], tile: Tile) -> int:
    """Return the bytes of the running sums at the moment when there are most."""
    sizes: dict[bytes, int] = {}
    inside: dict[bytes, set[Loop]] = {}
    runs: dict[Loop, set[bytes]] = {}
    for need in needs:
        node = need.node
        if isinstance(node, Input):
            continue
        if isinstance(node, Reduce):
            indices = (*need.indices[: node.axis], Index(), *need.indices[node.axis + 1 :])
            elements = place(replace(need, indices=indices), tile).block
            size = (
                REAL_BYTES * elements if node.acc is None else bytes_of(elements, node.acc.format)
            )
            if node.acc is not None:
                inside.setdefault(node.key, set()).update(need.outer)
                for _, digit in need.indices[node.axis].terms:
                    runs.setdefault(digit.loop, set()).add(node.key)
        else:
            size = REAL_BYTES * place(need, tile).block
        sizes[node.key] = max(size, sizes.get(node.key, 0))
    if not inside:
        return 0
    order, last = _lives(roots)
    most = now = 0
    ends: list[tuple[float, int]] = []  # of what is alive: the turn of its last reader, its size
    for key in sorted((k for k in sizes if k in last or k in inside), key=order.__getitem__):
        while ends and ends[0][0] <= order[key]:
            now -= heappop(ends)[1]
        if key in inside:
            around = {other for loop in inside[key] for other in runs.get(loop, ())} - {key}
            most = max(most, now + sizes[key] + sum(sizes[other] for other in around))
        if key in last:
            heappush(ends, (last[key], sizes[key]))
            now += sizes[key]
    return most


def _lives(roots: list[Node]) -> tuple[dict[bytes, float], dict[bytes, float]]:
    """Return the turn of each node, and of what is made from a sum the turn of its last reader.

    Views and roundings are no readers: what they give is the same value. A sum over parts that are
    joined takes in each part as soon as it is there.
    """
    order: dict[bytes, float] = {}
    last: dict[bytes, float] = {}
    stands_for: dict[bytes, tuple[bytes, ...]] = {}
    for turn, node in enumerate(topological(roots)):
        order[node.key] = turn
        behind = tuple(dict.fromkeys(k for arg in node.args for k in stands_for[arg.key]))
        if not isinstance(node, Map | Reduce):
            stands_for[node.key] = behind
            continue
        is_sum = isinstance(node, Reduce) and node.acc is not None
        stands_for[node.key] = (node.key,) if is_sum or behind else ()
        if isinstance(node, Reduce) and len(behind) > 1 and not isinstance(node.x, Map):
            order[node.key] = min(order[key] for key in behind) - 0.5
            last.update((key, max(last.get(key, 0), order[key] + 0.5)) for key in behind)
        else:
            last.update(dict.fromkeys(behind, turn))
    for root in roots:
        last.update(dict.fromkeys(stands_for[root.key], len(order)))
    return order, last
