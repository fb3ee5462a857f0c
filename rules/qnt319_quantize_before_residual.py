"""QNT319 quantize-before-residual: the residual is added behind a quantization, not before it.

Why it matters: fused kernels add the residual, normalise and quantize in one pass, and passes that
match such patterns have moved the quantization across the addition. Then the codes are those of one
operand, with the scale of that operand, and the residual is never rounded to the grid.
Legal: where a model was calibrated in this form.
Error: half an ulp of the grid at amax(x) in place of half an ulp at amax(x + r).
Source: vllm#10906 and vllm#27883 (fusions of residual addition, norm and quantization).
See also: QNT332 for the weight of a norm.
"""

from lastbit.change import Change
from lastbit.patterns.quantized import grid_at
from lastbit.patterns.scales import NO_PRODUCT, quantized_earlier
from lastbit.rule import Edits, Rewrite, Site, breaks, holds, rejects

NEED = "what is quantized is a sum of two values"


def rewrite(site: Site) -> Edits:
    """Quantize the first operand of the addition; add the second one where codes are read."""
    return quantized_earlier(site, "add", NEED)


RULE = Rewrite(
    code="QNT319",
    name="quantize-before-residual",
    claim=Change.GRID,
    prose=__doc__,
    graph="""
        x: bf16[M, K]
        r: bf16[M, K]
        w: bf16[K, 1]
        h: bf16 = x + r
        s: f32 = amax(h) / 448
        q: e4m3fn = h / s saturate
        y: f32 = q * s
        u: f32 = amax(r) / 448
        v: e4m3fn = r / u saturate
        z: f32 = v * u
        g: f32 = amax(x + r) / 448
        c: e4m3fn = (x + r) / g saturate
        o: f32 = matmul(c, w) * g acc f32 seq
    """,
    at=("q",),
    sizes={"M": 1, "K": 2},
    rewrite=rewrite,
    examples=(
        breaks(
            x=[[1, 10]], r=[[0, -9]], w=0, shows="y[0, 0]: 0x3f800000 -> 0x3f7b6db7"
        ),  # 1 and 1 in place of 55/56 and 1
        holds(x=[[224, 2]], r=[[224, 2]], w=0),  # all on the grid
        rejects(NEED, at=("v",), x=[[1, 10]], r=[[1, 1]], w=0),
        rejects(NO_PRODUCT, at=("c",), x=[[1, 10]], r=[[1, 1]], w=0),
    ),
    title=lambda site: f"`{grid_at(site).name}` is quantized before the residual is added",
    loses=("domain",),
)
