"""DOM508 fold-divide-self: x / x becomes 1.

Why it matters: for 0, inf and NaN, x / x is NaN. A simplifier that folds it hides a zero divisor,
and an overflow that made x infinite: a row of zeros, divided by its own sum, comes out as ones.
Legal: where x is known to be finite and not 0.
Error: exact for finite x that are not 0.
Source: IEEE 754-2019, clause 7.2 (0 / 0 and inf / inf are invalid); tilelang#2638.
"""

from lastbit.change import Change
from lastbit.graph import Map, broadcast, const
from lastbit.patterns import find, is_map, only, replace, same_format
from lastbit.rule import Edits, Rewrite, Site, breaks, holds, rejects

NEED = "the value divides something by itself once"


def rewrite(site: Site) -> Edits:
    """Write 1 in place of the quotient."""
    quotient = only(
        find(site.node, Map, lambda n: is_map(n, "div") and n.xs[0].key == n.xs[1].key), NEED
    )
    one = broadcast(const(1), quotient.shape)
    return {site.name: same_format(site.node, replace(site.node, quotient, one))}


RULE = Rewrite(
    code="DOM508",
    name="fold-divide-self",
    claim=Change.BITWISE,
    prose=__doc__,
    graph="""
        x: f32[N]
        y: f32 = x / x
        z: f32 = x / 3
    """,
    at=("y",),
    sizes={"N": 1},
    rewrite=rewrite,
    examples=(
        breaks(x=0, shows="y: 0x7fc00000 -> 0x3f800000"),  # 1 in place of NaN
        breaks(x=float("inf")),
        breaks(x=float("nan")),
        holds(x=3),
        rejects(NEED, at=("z",), x=1),
    ),
    loses=("domain",),
    title=lambda site: f"a quotient x / x in `{site.name}` is taken as 1",
)
