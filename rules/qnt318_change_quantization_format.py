"""QNT318 change-quantization-format: a row is quantized to another grid, with that grid's scale.

Why it matters: e4m3fn ends at 448 and e4m3fnuz, the 8-bit format of other vendors, at 240; int8
spaces its values evenly, e2m1 has eight magnitudes. Every code and every scale changes. It is a
change of grid only as long as the scale divides by the largest value of the new format. In the fnuz
formats -0 does not exist, and an infinity becomes NaN.
Legal: where both sides state the format, and the scale follows it.
Error: half an ulp of the new grid at a scale of amax over its largest value.
Source: OCP 8-bit Floating Point Specification (OFP8) 1.0; Noune et al., arXiv 2206.02915 (the fnuz
formats); onnx#6220 (what infinities become in them).
"""

from lastbit.change import Change
from lastbit.formats import format_of
from lastbit.graph import Const, Round, const
from lastbit.patterns import find, only, replace
from lastbit.patterns.quantized import NO_MAXIMUM, ROW_SCALED, grid_at, quantized_at
from lastbit.rounding import Rounding
from lastbit.rule import Edits, Parameter, Rewrite, Site, breaks, holds, rejects

FORMATS = ("e4m3fnuz", "e5m2fnuz", "e4m3fn", "e5m2", "e3m2", "e2m3", "e2m1", "int8", "int4")
NEED = "the scale divides by the largest value of the grid"


def rewrite(site: Site) -> Edits:
    """Divide by the scale of the new grid, and round to it."""
    found = quantized_at(site)
    old, new = found.node.rounding, format_of(site.text("format"))
    largest = only(find(found.formula, Const, lambda c: c.value == old.format.max_finite), NEED)
    edits = found.rescaled(replace(found.formula, largest, const(new.max_finite)))
    root = edits[found.name]
    quantized = only(find(root, Round, lambda n: n.rounding == old), NEED)
    rounding = Rounding.of(new, old.mode, "saturate", old.subnormals, old.seed)
    return {**edits, found.name: replace(root, quantized, Round(quantized.x, rounding))}


RULE = Rewrite(
    code="QNT318",
    name="change-quantization-format",
    claim=Change.GRID,
    prose=__doc__,
    graph=ROW_SCALED
    + """
        d: e4m3fn = t / 2 saturate
        r: f32 = amax(t, axis=-1) / 256
        c: e4m3fn = t / r saturate             # another convention
    """,
    at=("q",),
    sizes={"M": 1, "K": 2, "N": 1},
    rewrite=rewrite,
    parameters=(Parameter("format", "choice", "the other grid", "e4m3fnuz", FORMATS),),
    examples=(
        breaks(
            t=[[1, 10]], w=[[1], [0]], shows="y: 0x3f7b -> 0x3f80"
        ),  # 24 / 24 in place of 44 / 44.8
        breaks({"format": "int8"}, t=[[1, 10]], w=[[1], [0]]),  # 13 / 12.7
        holds(t=[[0, 10]], w=[[1], [1]]),  # 10 is the largest value of either grid
        rejects(NO_MAXIMUM, at=("d",), t=[[1, 10]], w=[[1], [0]]),
        rejects(NEED, at=("c",), t=[[1, 10]], w=[[1], [0]]),
    ),
    title=lambda site: (
        f"`{grid_at(site).name}` is quantized to {site.text('format')} instead of "
        f"{grid_at(site).node.rounding.format.short}"
    ),
    loses=("domain",),
)
