"""What blockwise attention reads again, and what it holds, by formula; and where it is.

A block keeps `rows` rows of Q and their f32 accumulators while K and V pass by in blocks. The more
rows fit, the fewer passes over K and V; the smaller the blocks of K and V, the more rows fit, and
the more often the running maximum and sums are updated. Source: Dao et al., "FlashAttention"
(arXiv 2205.14135), sections 3.1 and 3.2.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from math import ceil

from lastbit.graph import Map, Node, Reduce, Round, View, topological

F32_BYTES = 4
STATISTICS = 3  # f32 numbers of a row: maximum, sum, and the factor by which both are rescaled


@dataclass(frozen=True, slots=True)
class Attention:
    """One head of attention, computed by blocks.

    Attributes:
        length: queries, and keys.
        width: elements of a query.
        block: keys in a block.
        capacity: bytes of local storage.
        element_bytes: bytes of an element of Q, K, V and O.
        prefetch: further blocks of K or V that are loaded ahead.
    """

    length: int
    width: int
    block: int
    capacity: int
    element_bytes: int = 2
    prefetch: int = 0

    def local_bytes(self, rows: int) -> int:
        """Return what a block of threads with so many rows of Q holds."""
        return rows * self._row_bytes + self._block_bytes

    @property
    def _row_bytes(self) -> int:
        query, output = self.width * self.element_bytes, self.width * F32_BYTES
        return query + output + state_bytes(1, self.block)

    @property
    def _block_bytes(self) -> int:
        return (1 + self.prefetch) * self.block * self.width * self.element_bytes

    @property
    def rows(self) -> int:
        """Return the rows of Q that fit; 0 where none does."""
        return max(0, min(self.length, (self.capacity - self._block_bytes) // self._row_bytes))

    @property
    def passes(self) -> int:
        """Return the passes over all of K and V.

        Raises:
            ValueError: no row fits.
        """
        if not self.rows:
            raise ValueError(f"no row of Q fits into {self.capacity} bytes")
        return ceil(self.length / self.rows)

    @property
    def tensor_bytes(self) -> int:
        """Return the bytes of each of Q, K, V and O."""
        return self.length * self.width * self.element_bytes

    @property
    def bytes(self) -> int:
        """Return all bytes: K and V in every pass, Q and O once."""
        return (2 * self.passes + 2) * self.tensor_bytes

    @property
    def updates(self) -> int:
        """Return how often a block of rows meets a block of keys."""
        return self.passes * ceil(self.length / self.block)


def state_bytes(rows: int, block: int) -> int:
    """Return what blockwise attention keeps beside its operands and the weighted sum.

    Scores and weights of one block of keys share their place; maximum, sum and factor are numbers
    of a row.

    Args:
        rows: rows of Q that a block of threads holds.
        block: keys in a block.
    """
    return rows * (block + STATISTICS) * F32_BYTES


@dataclass(frozen=True, slots=True)
class Blockwise:
    """A softmax that reads its scores in blocks, with a running maximum.

    Attributes:
        block: scores of a row in the longest block.
        maximum: one of the maxima over a block, of which there is one number a row.
        sums: the sums over weights, by key: those of weighted values, and of the weights alone.
    """

    block: int
    maximum: Reduce
    sums: frozenset[bytes]


def blockwise(roots: Iterable[Node]) -> Blockwise | None:
    """Return the blockwise softmax in some definitions; None where there is none.

    It is known by what it must have: maxima over several slices of the same scores, exponentials
    relative to them, and sums of these.
    """
    nodes = list(topological(list(roots)))
    slices: dict[bytes, list[Reduce]] = {}
    for node in nodes:
        if isinstance(node, Reduce) and node.op == "max":
            x = node.x
            while isinstance(x, Round):
                x = x.x
            if isinstance(x, View) and x.kind == "slice":
                slices.setdefault(x.xs[0].key, []).append(node)
    found = max(slices.values(), key=len, default=[])
    if len({maximum.x.key for maximum in found}) < 2:
        return None
    shifted = {maximum.key for maximum in found}
    weights: set[bytes] = set()
    sums = set()
    for node in nodes:
        keys = {arg.key for arg in node.args}
        if not keys.isdisjoint(shifted):
            shifted.add(node.key)
            if isinstance(node, Map) and node.fn in ("exp", "exp2"):
                weights.add(node.key)
        if not keys.isdisjoint(weights):
            weights.add(node.key)
            if isinstance(node, Reduce) and node.acc is not None:
                sums.add(node.key)
    block = max(maximum.length for maximum in found)
    return Blockwise(block, found[0], frozenset(sums)) if sums else None
