"""What a block of threads holds while it computes its tile.

It holds the blocks of the operands of each sum or extreme, once for each buffer, for as long as it
runs; the running sums; and an operand that an extreme reads and that is needed again afterwards. A
reduction in the terms of another one runs while the other one does. A running extreme is one number
of an element and lies in a register.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from heapq import heappop, heappush

from lastbit.cost.attention import Blockwise, blockwise, state_bytes
from lastbit.cost.counting import place, total, uncovered
from lastbit.cost.placement import ALL, Tile
from lastbit.cost.reading import Index, Loop, Need, needs_of
from lastbit.cost.running import running_bytes
from lastbit.cost.stored import bytes_of
from lastbit.graph import Input, Map, Node, Reduce, topological

REAL_BYTES = 4  # what stands between two roundings is held in f32


@dataclass(frozen=True, slots=True)
class Held:
    """What a block holds.

    Attributes:
        operands: bytes of operands, all buffers included.
        accumulators: bytes of running sums, which may lie in registers.
        known: whether the tile says how much that is; if not, it is no less than these.
    """

    operands: int
    accumulators: int
    known: bool

    @property
    def bytes(self) -> int | None:
        """Return all of it; None where the tile does not say."""
        return self.least if self.known else None

    @property
    def least(self) -> int:
        """Return what a block holds at least, to move no more than is counted."""
        return self.operands + self.accumulators


def held(roots: Iterable[Node], tile: Tile) -> Held:
    """Return what a block of a kernel holds.

    Traffic counts a size that is not said as all of its axis. A block holds what that takes; where
    fewer terms of a sum at a time would move no more, it is one term, and no less is known.

    Args:
        roots: the definitions that the kernel returns, with what is computed inside written out.
        tile: the tile in which it works.
    """
    if not tile.cuts:
        return Held(0, 0, False)
    nodes = list(roots)
    needs = [need for node in nodes for need in needs_of(node)]
    whole = replace(tile, rows=tile.rows or ALL, columns=tile.columns or ALL)
    blocks = blockwise(nodes)
    if blocks is not None:
        known = _known(needs, replace(tile, columns=ALL, depth=ALL))
        return _of_blocks(blocks, needs, whole, known)
    known = _known(needs, tile)
    if tile.depth is None:
        whole = replace(whole, depth=1)
        if loads(needs, whole) != loads(needs, tile):
            whole = replace(whole, depth=ALL)
            known = _known(needs, replace(tile, depth=ALL))
    return Held(_operands(needs, whole), _accumulators(nodes, needs, whole), known)


def loads(needs: Iterable[Need], tile: Tile) -> dict[str, int]:
    """Return the elements that all tiles load, by operand."""
    found: dict[str, list[Need]] = {}
    for need in needs:
        if isinstance(need.node, Input):
            found.setdefault(need.node.name, []).append(need)
    return {
        name: total(place(need, tile) for need in uncovered(ways, tile))
        for name, ways in found.items()
    }


def _known(needs: Iterable[Need], tile: Tile) -> bool:
    loops = {loop for need in needs for loop in (*need.result, *need.loops) if loop.length > 1}
    open_ = {-1: tile.columns is None, -2: tile.rows is None}
    return not any(open_.get(loop.place, loop.place > 0 and tile.depth is None) for loop in loops)


def _of_blocks(blocks: Blockwise, needs: Sequence[Need], tile: Tile, known: bool) -> Held:
    """Return what a block of blockwise attention holds.

    An operand that each block of keys needs anew shares the place of the others of that kind, as
    those of K and V do; one that all of them need stays. The weighted sum is rescaled and added to
    in place.
    """
    tile = replace(tile, depth=ALL)
    parts: dict[str, set[tuple[object, ...]]] = {}
    sizes: dict[str, int] = {}
    rows = sums = 0
    for need in needs:
        node = need.node
        if isinstance(node, Input):
            found = place(need, tile)
            parts.setdefault(node.name, set()).add((found.key, found.box))
            sizes[node.name] = max(bytes_of(found.block, node.format), sizes.get(node.name, 0))
        elif isinstance(node, Reduce):
            elements = _result(need, tile)
            if node.key == blocks.maximum.key:
                rows = max(rows, elements)
            if node.key in blocks.sums and node.acc is not None:
                sums = max(sums, bytes_of(elements, node.acc.format))
    slot = max((sizes[name] for name, found in parts.items() if len(found) > 1), default=0)
    kept = sum(sizes[name] for name, found in parts.items() if len(found) == 1)
    weighted = sums if sums > rows * REAL_BYTES else 0  # else they are the sums of the weights
    return Held(kept + slot * tile.buffers, weighted + state_bytes(rows, blocks.block), known)


def _result(need: Need, tile: Tile) -> int:
    """Return how many elements of a reduction a tile needs at a time."""
    assert isinstance(need.node, Reduce)
    axis = need.node.axis
    indices = (*need.indices[:axis], Index(), *need.indices[axis + 1 :])
    return place(replace(need, indices=indices), tile).block


def _operands(needs: Iterable[Need], tile: Tile) -> int:
    """Return the bytes of operands: those of the reductions that need most, and those kept."""
    clusters = _Clusters()
    loaded: dict[tuple[str, object], tuple[Loop, int]] = {}
    again: dict[tuple[str, tuple[object, object]], tuple[set[frozenset[Loop]], int]] = {}
    in_sums: set[str] = set()
    for need in needs:
        around = {*need.loops, *need.outer} - need.whole
        clusters.join([loop for loop in around if loop.place > 0])
        if not isinstance(need.node, Input):
            continue
        found = place(need, tile)
        size = bytes_of(found.block, need.node.format)
        reductions = frozenset(loop for loop in need.loops if loop.place > 0)
        if reductions:
            key = (need.node.name, found.key)
            first = min(reductions, key=lambda loop: (not loop.sums, loop))
            loaded[key] = (first, max(size, loaded.get(key, (None, 0))[1]))
        if any(loop.sums for loop in reductions):
            in_sums.add(need.node.name)
        place_ = (need.node.name, (found.key, found.box))
        stages, most = again.setdefault(place_, (set(), 0))
        again[place_] = (stages | {reductions}, max(size, most))
    kept = {
        (name, key): size
        for (name, (key, _)), (stages, size) in again.items()
        if len(stages) > 1 and name not in in_sums
    }
    totals: dict[Loop, int] = {}
    for operand, (loop, size) in loaded.items():
        if operand not in kept:
            first = clusters.first(loop)
            totals[first] = totals.get(first, 0) + size
    return max(totals.values(), default=0) * tile.buffers + sum(kept.values())


class _Clusters:
    """Loops of reductions that run at the same time."""

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
    needs = list(needs)
    sizes: dict[bytes, int] = {}
    running: dict[bytes, int] = {}
    inside: dict[bytes, set[Loop]] = {}
    runs: dict[Loop, set[bytes]] = {}
    for need in needs:
        node = need.node
        if isinstance(node, Input):
            continue
        if isinstance(node, Reduce):
            elements = _result(need, tile)
            size = (
                REAL_BYTES * elements if node.acc is None else bytes_of(elements, node.acc.format)
            )
            if node.acc is not None:
                running[node.key] = max(running_bytes(node, elements), running.get(node.key, 0))
                inside.setdefault(node.key, set()).update(need.outer)
                for _, digit in need.indices[node.axis].terms:
                    runs.setdefault(digit.loop, set()).add(node.key)
        else:
            size = REAL_BYTES * place(need, tile).block
        sizes[node.key] = max(size, sizes.get(node.key, 0))
    if not inside:
        return 0
    for key in _anew(needs, tile):
        sizes.pop(key, None)
    order, last = _lives(roots)
    most = now = 0
    ends: list[tuple[float, int]] = []  # of what is alive: the turn of its last reader, its size
    for key in sorted((k for k in sizes if k in last or k in inside), key=order.__getitem__):
        while ends and ends[0][0] <= order[key]:
            now -= heappop(ends)[1]
        if key in inside:
            around = {other for loop in inside[key] for other in runs.get(loop, ())} - {key}
            most = max(most, now + running[key] + sum(running[other] for other in around))
        if key in last:
            heappush(ends, (last[key], sizes[key]))
            now += sizes[key]
    return most


def _anew(needs: Iterable[Need], tile: Tile) -> Iterator[bytes]:
    """Yield the maps that are computed anew in each stage, since not all of them is there at once.

    What passes by a few terms at a time is gone when the next stage needs it; so nothing of it is
    held in between.
    """
    found: dict[bytes, list[Need]] = {}
    for need in needs:
        if isinstance(need.node, Map):
            found.setdefault(need.node.key, []).append(need)
    for key, ways in found.items():
        if len(ways) > 1 and len({place(w, tile)[:2] for w in uncovered(ways, tile)}) > 1:
            yield key


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
