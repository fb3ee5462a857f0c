"""Variants that were run, and which of them is nearer."""

from __future__ import annotations

from dataclasses import dataclass

from lastbit.inference.agreement import Agreement
from lastbit.inference.variants import Variant

Rank = tuple[float, float, int, int]

# Rules that say in a roundabout way what plainer ones say too.
GENERAL = frozenset(("DET602", "FUS117", "FUS119", "FUS124", "FUS126", "RED265"))


@dataclass(frozen=True, slots=True)
class Tried:
    """A variant that was run.

    Attributes:
        variant: the variant.
        agreement: how it agrees with the kernel, on a part of the data or on all.
    """

    variant: Variant
    agreement: Agreement

    @property
    def rank(self) -> Rank:
        """Return a key that sorts the nearest first, of several the plainest."""
        moves = self.variant.moves
        general = sum(move.rule.code in GENERAL for move in moves)
        return -self.agreement.share, self.agreement.distance, len(moves), general


def rank_of(one: Tried) -> Rank:
    """Return the key that sorts the nearest first."""
    return one.rank
