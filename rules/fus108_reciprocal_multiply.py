"""FUS108 reciprocal-multiply: a division becomes a multiplication by the rounded reciprocal.

Why it matters: compilers do it for constants under fast-math flags, and kernels by hand for a scale
that divides a whole row. Two roundings replace one: of the integers x below 2000, x / 3 in f32
changes for 666. Before a cast to 8 bits, codes flip.
Legal: as a change of rounding; bit for bit for powers of two (CVT407).
Error: at most (1 + u)^2 - 1 relative, against u of the division; exact where the divisor is a power
of two whose reciprocal is in range.
Source: Brisebarre, Muller and Raina, "Accelerating correctly rounded floating-point division when
the divisor is known in advance" (IEEE Trans. Comput. 53(8), 2004); vllm#31514.
See also: CVT407 for powers of two; QNT310 in front of a grid.
"""

from lastbit.change import Change
from lastbit.graph import Map, Round, apply
from lastbit.patterns import NO_GRID_FORMAT, find, is_map, only, replace
from lastbit.rounding import Rounding
from lastbit.rule import Edits, Parameter, Rewrite, Site, breaks, holds, rejects


def rewrite(site: Site) -> Edits:
    """Multiply by the reciprocal, rounded to `format`."""
    ratio = only(
        find(site.node, Map, lambda node: is_map(node, "div")), "the value holds one division"
    )
    x, divisor = ratio.xs
    reciprocal = Round(apply("div", 1, divisor), Rounding.of(site.text("format")))
    return {site.name: replace(site.node, ratio, apply("mul", x, reciprocal))}


RULE = Rewrite(
    code="FUS108",
    name="reciprocal-multiply",
    claim=Change.ROUNDING,
    prose=__doc__,
    graph="""
        x: f32[N]
        s: f32[1]
        y: f32 = x / s
        q: e4m3fn = x / 7 saturate
        z: f32 = x * s
    """,
    at=("y",),
    sizes={"N": 1},
    rewrite=rewrite,
    parameters=(Parameter("format", "format", "the format that holds the reciprocal", "f32"),),
    requires=(NO_GRID_FORMAT,),
    examples=(
        breaks(
            x=5, s=3, shows="y: 0x3fd55555 -> 0x3fd55556"
        ),  # the first integer whose third changes
        holds(x=5, s=4),  # 1/4 is exact
        breaks(
            x=7.4375, s=1, at=("q",)
        ),  # 1.0625 ties to 1; just above it, the code is that of 1.125
        rejects("format is no grid", {"format": "e4m3fn"}, x=1, s=1),
        rejects("the value holds one division", x=1, s=1, at=("z",)),
    ),
    loses=("domain",),
    title=lambda site: (
        f"`{site.name}` multiplies by a reciprocal rounded to {site.text('format')} "
        "instead of dividing"
    ),
)
