"""QNT327 narrow-scale: the scale of a quantization is held in a narrower format.

Why it matters: scales stored as bf16 or float16 next to the codes save memory, and a kernel that
divides by the wide scale but stores the narrow one restores other values than it quantized. Here
both use the narrow one. Rounded down, a bf16 scale takes the largest element of a row to at most
449.8, which still rounds to 448. In float16, rows with a maximum below 1.3e-5 have the scale 0.
Legal: as a change of rounding, where the narrow scale is the one that divides and the one that
multiplies.
Error: u of the format in the scale (2^-8 of bf16), and a code next to a midpoint.
Source: IEEE 754-2019, clause 4.3; OCP 8-bit Floating Point Specification (OFP8) 1.0.
"""

from lastbit.change import Change
from lastbit.graph import Round
from lastbit.patterns import NO_GRID_FORMAT, unrounded
from lastbit.patterns.quantized import NO_MAXIMUM, ROW_SCALED, grid_at, quantized_at
from lastbit.rounding import Rounding
from lastbit.rule import Edits, Parameter, Rewrite, Site, breaks, holds, rejects


def rewrite(site: Site) -> Edits:
    """Round the scale to `format`."""
    found = quantized_at(site)
    narrow = Rounding.of(site.text("format"))
    return found.rescaled(Round(unrounded(found.formula), narrow))


RULE = Rewrite(
    code="QNT327",
    name="narrow-scale",
    claim=Change.ROUNDING,
    prose=__doc__,
    graph=ROW_SCALED + "\nd: e4m3fn = t / 2 saturate\n",
    at=("q",),
    sizes={"M": 1, "K": 2, "N": 1},
    rewrite=rewrite,
    parameters=(Parameter("format", "format", "the format that holds the scale", "bf16"),),
    requires=(NO_GRID_FORMAT,),
    examples=(
        breaks(t=[["0x1.04p-1", 0]], w=[[1.5], [0]], shows="y: 0x3f43 -> 0x3f44"),
        breaks({"format": "f16"}, t=[["0x1p-30", 0]], w=[[1], [0]]),  # the scale is 0
        holds(t=[[1, 448]], w=[[1], [1]]),  # the scale is 1
        rejects(NO_GRID_FORMAT.text, {"format": "e4m3fn"}, t=[[1, 10]], w=[[1], [0]]),
        rejects(NO_MAXIMUM, at=("d",), t=[[1, 10]], w=[[1], [0]]),
    ),
    title=lambda site: f"the scale of `{grid_at(site).name}` is rounded to {site.text('format')}",
    loses=("domain",),
)
