"""CVT403 round-through: a conversion goes through a format in the middle.

Why it matters: packed conversions exist only between some formats, so kernels and libraries convert
float64 to bfloat16 by way of binary32, or binary32 to 8 bits by way of bfloat16. What is next to a
midpoint of the target is first rounded onto it and then away: 17/16 + 2^-12 becomes 1.0 by way of
bf16 and 1.125 directly (e4m3fn).
Legal: as a change of rounding; bit for bit where the middle format holds whatever arrives. The sum,
product, quotient or root of numbers of p digits may pass through 2 p + 2 digits unharmed; a fused
multiply-add, a dot product or the cast of any other number may not.
Error: just above half an ulp of the target: up to 1/2 + 2^(p - q - 1), for q digits in the middle.
Source: Figueroa, "When is double rounding innocuous?" (SIGNUM Newsletter 30(3), 1995);
flashinfer#4167 (binary32 to e4m3fn through bf16).
"""

from lastbit.change import Change
from lastbit.graph import Round
from lastbit.patterns import NO_GRID_FORMAT, outer_rounding, replace
from lastbit.rounding import Rounding
from lastbit.rule import Edits, Parameter, Rewrite, Site, breaks, holds, rejects


def rewrite(site: Site) -> Edits:
    """Round to the format in the middle first."""
    last = outer_rounding(site.node)
    first = Round(last.x, Rounding.of(site.text("format")))
    return {site.name: replace(site.node, last, Round(first, last.rounding))}


RULE = Rewrite(
    code="CVT403",
    name="round-through",
    claim=Change.ROUNDING,
    prose=__doc__,
    graph="""
        x: f32[N]
        y: e4m3fn = x saturate
        d: f64[N]
        z: bf16 = d
        l: f32 = sum(x) acc f32 seq
    """,
    at=("y",),
    sizes={"N": 1},
    rewrite=rewrite,
    parameters=(Parameter("format", "format", "the format in the middle"),),
    requires=(NO_GRID_FORMAT,),
    examples=(
        breaks(
            {"format": "bf16"}, x="0x1.101p+0", d=0, shows="y: 0x39 -> 0x38"
        ),  # 17/16 + 2**-12: 1 in place of 1.125
        breaks({"format": "f32"}, at=("z",), x=0, d="0x1.0100000001p+0"),  # 1 + 2**-8 + 2**-40
        breaks({"format": "f16"}, at=("z",), x=0, d=65536),  # inf: f16 ends at 65504
        holds({"format": "bf16"}, x="0x1.14p+0", d=0),  # no midpoint near
        rejects(NO_GRID_FORMAT.text, {"format": "e5m2"}, x=1, d=0),
        rejects("the value is rounded", {"format": "bf16"}, at=("l",), x=1, d=0),
    ),
    loses=("domain",),
    title=lambda site: f"`{site.name}` is rounded to {site.text('format')} on the way",
)
