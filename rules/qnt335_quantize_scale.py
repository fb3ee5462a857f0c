"""QNT335 quantize-scale: the scales of rows or blocks are themselves held in e4m3.

Why it matters: 4-bit formats with blocks of 16 (NVFP4) store each block's scale in 8 bits, times
one scale for the tensor, so that the largest block's scale is 448. Such scales have four digits:
rounded down, the largest element of a block lies up to 6.25 % beyond the grid and saturates, and
blocks far below the tensor's maximum have a scale of 0. The tensor's maximum makes a row's codes
depend on the batch.
Legal: where both sides state the two levels; a row then depends on its batch.
Error: half an ulp of e4m3 in the scale (6.25 %), on top of the grid's own.
Source: NVIDIA, "Pretraining large language models with NVFP4", arXiv 2509.25149, section 2 (scales
in two levels).
"""

from lastbit.change import Change
from lastbit.formats import E4M3FN, F32
from lastbit.graph import Round, apply
from lastbit.patterns import unrounded
from lastbit.patterns.quantized import NO_MAXIMUM, grid_at, over_tensor, quantized_at
from lastbit.rounding import Rounding
from lastbit.rule import Edits, Rewrite, Site, breaks, holds, rejects


def rewrite(site: Site) -> Edits:
    """Round each scale to e4m3, in units of a scale for the whole tensor."""
    found = quantized_at(site)
    scale = unrounded(found.formula)
    unit = Round(apply("div", over_tensor(scale), E4M3FN.max_finite), Rounding.of(F32))
    narrow = Round(apply("div", scale, unit), Rounding.of(E4M3FN, overflow="saturate"))
    return found.rescaled(apply("mul", narrow, unit))


RULE = Rewrite(
    code="QNT335",
    name="quantize-scale",
    claim=Change.GRID,
    prose=__doc__,
    graph="""
        t: bf16[M, K]
        s: f32 = amax(t) / 6                   # 6 is the largest e2m1
        q: e2m1 = t / s saturate
        y: f32 = q * s
        d: e2m1 = t / 2 saturate
    """,
    at=("q",),
    sizes={"M": 2, "K": 1},
    rewrite=rewrite,
    examples=(
        breaks(
            t=[[17], [28]], shows="y[0, 0]: 0x41880000 -> 0x41800000"
        ),  # 16 in place of 17: its scale is 272 and falls to 256
        breaks(t=[["0x1p-20"], [28]]),  # a scale of 0, and 0 in place of 2**-20
        holds(t=[[1344], [2688]]),  # 2688 = 6 * 448: the unit is 1
        rejects(NO_MAXIMUM, at=("d",), t=[[1], [10]]),
    ),
    title=lambda site: f"the scales of `{grid_at(site).name}` are rounded to e4m3",
    loses=("domain", "batch_invariant"),
)
