"""QNT310 reciprocal-scale: a quantization multiplies by the rounded reciprocal of its scale.

Why it matters: one division for a row and a product for each element is much faster than a division
for each. Two roundings stand where one stood, and next to a midpoint of the grid a code flips; 248
of 819,200 bf16 inputs did.
Legal: as a change of rounding; bit for bit where the scale is a power of two.
Error: at most u relative in the quotient (u = 2^-24 for binary32); one code next to a midpoint.
Source: vllm#31514; Brisebarre, Muller and Raina, "Accelerating correctly rounded floating-point
division when the divisor is known in advance" (IEEE Trans. Comput. 53(8), 2004).
See also: FUS108 for any division; QNT311 for the wrong one of two scales.
"""

from lastbit.change import Change
from lastbit.graph import Round, apply
from lastbit.patterns import NO_GRID_FORMAT, replace
from lastbit.patterns.quantized import NO_SCALE, scaled_at
from lastbit.rounding import Rounding
from lastbit.rule import Edits, Parameter, Rewrite, Site, breaks, holds, rejects


def rewrite(site: Site) -> Edits:
    """Multiply by the reciprocal of the scale, rounded to `format`."""
    grid, x, scale = scaled_at(site)
    reciprocal = Round(apply("div", 1, scale), Rounding.of(site.text("format")))
    return grid.replaced(replace(grid.node, grid.node.x, apply("mul", x, reciprocal)))


RULE = Rewrite(
    code="QNT310",
    name="reciprocal-scale",
    claim=Change.ROUNDING,
    prose=__doc__,
    graph="""
        x: f32[N]
        s: f32[1]
        q: e4m3fn = x / s saturate
        d: e4m3fn = x saturate
    """,
    at=("q",),
    sizes={"N": 1},
    rewrite=rewrite,
    parameters=(Parameter("format", "format", "the format that holds the reciprocal", "f32"),),
    requires=(NO_GRID_FORMAT,),
    examples=(
        breaks(x=51, s=3, shows="q: 0x58 -> 0x59"),
        holds(x=51, s=4),  # 1/4 is exact
        rejects(NO_GRID_FORMAT.text, {"format": "e4m3fn"}, x=1, s=1),
        rejects(NO_SCALE, at=("d",), x=1, s=1),
    ),
    loses=("domain",),
    title=lambda site: (
        f"`{scaled_at(site)[0].name}` multiplies by the reciprocal of its scale, "
        f"rounded to {site.text('format')}"
    ),
)
