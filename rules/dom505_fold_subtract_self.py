"""DOM505 fold-subtract-self: x - x becomes 0.

Why it matters: for inf and NaN, x - x is NaN. A simplifier that folds it hides the overflow that
made x infinite, and masks built as x - x no longer carry NaN.
Legal: where x is known to be finite.
Error: exact for finite x.
Source: IEEE 754-2019, clauses 6.1 and 7.2; tilelang#2638.
"""

from lastbit.change import Change
from lastbit.graph import Map, broadcast, const
from lastbit.patterns import find, is_map, only, replace, same_format
from lastbit.rule import Edits, Rewrite, Site, breaks, holds, rejects

NEED = "the value subtracts something from itself once"


def rewrite(site: Site) -> Edits:
    """Write 0 in place of the difference."""
    difference = only(
        find(site.node, Map, lambda n: is_map(n, "sub") and n.xs[0].key == n.xs[1].key), NEED
    )
    zero = broadcast(const(0), difference.shape)
    return {site.name: same_format(site.node, replace(site.node, difference, zero))}


RULE = Rewrite(
    code="DOM505",
    name="fold-subtract-self",
    claim=Change.BITWISE,
    prose=__doc__,
    graph="""
        x: f32[N]
        y: f32 = x - x
        z: f32 = x - 1
    """,
    at=("y",),
    sizes={"N": 1},
    rewrite=rewrite,
    examples=(
        breaks(x=float("inf"), shows="y: 0x7fc00000 -> 0x00000000"),  # 0 in place of NaN
        breaks(x=float("nan")),
        holds(x=3),
        rejects(NEED, at=("z",), x=1),
    ),
    loses=("domain",),
    title=lambda site: f"a difference x - x in `{site.name}` is taken as 0",
)
