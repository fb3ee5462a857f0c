"""When the sums of an online softmax follow its running maximum, where a kernel spares that."""

from __future__ import annotations

from lastbit.graph import Map, Node, apply
from lastbit.rule import Parameter, Site

THRESHOLD = Parameter(
    "threshold", "count", "how far the maximum may grow before the sums are rescaled", 8
)
"""In the units of the exponent: FlashAttention-4 takes 8, to base 2, a factor of 256."""


def stays(site: Site, old: Node, top: Node) -> Map:
    """Return 1 where a new maximum is at most the threshold above an old reference, else 0."""
    return apply("less_equal", apply("sub", top, old), site.integer("threshold"))
