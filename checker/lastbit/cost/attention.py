"""What blockwise attention reads again, and what it holds.

A block keeps `rows` rows of Q and their f32 accumulators while K and V pass by in blocks. The more
rows fit, the fewer passes over K and V; the smaller the blocks of K and V, the more rows fit, and
the more often the running maximum and sums are updated. Source: Dao et al., "FlashAttention"
(arXiv 2205.14135), sections 3.1 and 3.2.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil

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
        scores = self.block * F32_BYTES
        return query + output + scores + STATISTICS * F32_BYTES

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
