"""The four policies: which roundings an interpretation carries out."""

from __future__ import annotations

from enum import IntEnum

from lastbit.rounding import Rounding


class Policy(IntEnum):
    """What is rounded, from nothing to everything.

    `REAL` rounds nothing; saturation stays, as a clamp. `GRID` rounds to grids: integers and
    formats of at most 8 bits. `ROUND` rounds every value, a sum once for each level of another
    format. `BITS` also rounds at every node of a sum's tree.
    """

    REAL = 0
    GRID = 1
    ROUND = 2
    BITS = 3

    def rounds(self, rounding: Rounding) -> bool:
        """Return whether this policy carries out a rounding."""
        return self >= Policy.ROUND or (self == Policy.GRID and rounding.format.is_grid)
