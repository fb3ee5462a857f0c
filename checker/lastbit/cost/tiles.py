"""The tiles in which a kernel is tried."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import groupby, product
from math import prod

from lastbit.cost.counting import place, total
from lastbit.cost.holding import loads
from lastbit.cost.kernels import WHOLE, Kernel
from lastbit.cost.placement import ALL, Tile
from lastbit.cost.reading import Need
from lastbit.graph import Node, Reduce

EDGES = (16, 32, 64, 128, 256)  # rows and columns of a tile of a matrix product
DEPTHS = (16, 32, 64, 128, ALL)  # terms of its sum that are loaded at a time
ROWS = (1, 2, 4, 8, 16, 32, 64, 128)  # of a tile of whole rows
PARTS = (512, 1024, 2048, ALL)  # terms of the sum of a row that are loaded at a time


def tiles_for(kernel: Kernel, needs: Iterable[Need]) -> Iterator[Tile]:
    """Yield the tiles in which a kernel may work: one, where it holds no reduction.

    Those that differ in their depth alone follow each other, the shallowest first.
    """
    needs = list(needs)
    result = {loop for need in needs for loop in need.result}
    rows = max((loop.length for loop in result if loop.place == -2), default=1)
    columns = max((loop.length for loop in result if loop.place == -1), default=1)
    reductions = [need for need in needs if isinstance(need.node, Reduce)]
    length = max((loop.length for n in reductions for loop in n.loops if loop.place > 0), default=1)
    if not reductions:
        yield WHOLE
    elif is_product(needs):
        across = [*_up_to(EDGES, columns), *([ALL] if columns > EDGES[-1] else [])]
        for m, n in product(_up_to(EDGES, rows), across):
            for depth in _below(DEPTHS, length):
                yield Tile(m, n, depth)
    else:
        for m, depth in product(_up_to(ROWS, rows), _below(PARTS, length)):
            yield Tile(m, ALL, depth)


def worth(kernel: Kernel, needs: Sequence[Need]) -> Iterator[Tile]:
    """Yield the tiles without those that hold more than another, and move no less.

    In a product, more terms at a time take more storage. Where all of them at once save no
    traffic, the fewest are enough.
    """
    tiles = tiles_for(kernel, needs)
    if not is_product(needs):
        yield from tiles
        return
    for _, group in groupby(tiles, key=lambda tile: (tile.rows, tile.columns)):
        shallow, *deeper = group
        yield shallow
        if deeper and loads(needs, shallow) != loads(needs, deeper[-1]):
            yield from deeper


def is_product(needs: Iterable[Need]) -> bool:
    """Return whether a sum runs across both a row and a column of the result."""
    return any(
        {-1, -2} <= {loop.place for loop in need.loops} for need in needs if is_sum(need.node)
    )


def filled(tile: Tile, needs: Sequence[Need]) -> Iterator[Tile]:
    """Yield the tiles that a plan can mean by one of which it does not say all."""
    if not tile.cuts:
        return
    whole = replace(tile, rows=tile.rows or ALL, columns=tile.columns or ALL)
    depths = DEPTHS if tile.depth is None and is_product(needs) else (tile.depth or ALL,)
    yield from (replace(whole, depth=depth) for depth in depths)


def _below(sizes: Sequence[int], length: int) -> list[int]:
    """Return the sizes that cut a length, and the one that does not."""
    return [size for size in sizes if size < length or size == ALL]


def _up_to(sizes: Sequence[int], length: int) -> list[int]:
    return [size for size in sizes if size < 2 * length] or [sizes[0]]


def is_sum(node: Node) -> bool:
    """Return whether a node is a sum with an accumulator."""
    return isinstance(node, Reduce) and node.acc is not None


def by_node(needs: Iterable[Need]) -> list[list[Need]]:
    """Return the needs of each node."""
    out: dict[bytes, list[Need]] = {}
    for need in needs:
        out.setdefault(need.node.key, []).append(need)
    return list(out.values())


def repeated(needs: Sequence[Need], tile: Tile) -> bool:
    """Return whether a sum is added up more than once."""
    return total(place(need, tile) for need in needs) > prod(needs[0].shape)
