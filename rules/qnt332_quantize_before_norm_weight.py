"""QNT332 quantize-before-norm-weight: the weight of a norm multiplies behind a quantization.

Why it matters: a norm that hands codes to the next matrix product multiplies by its weight first;
moved behind the quantization, the weight cannot be folded into the next layer's weights without
another rounding, and the scale is that of the normalised row: outlier channels, which the weight
makes or tames, fall to other codes.
Legal: where a model was calibrated in this form; SmoothQuant moves such factors on purpose.
Error: half an ulp of the grid at amax(n) |w| in place of half an ulp at amax(n w).
Source: Xiao et al., SmoothQuant, arXiv 2211.10438, section 4 (factors moved across a quantization);
vllm#27883.
See also: QNT319 for the residual.
"""

from lastbit.change import Change
from lastbit.patterns.quantized import grid_at
from lastbit.patterns.scales import quantized_earlier
from lastbit.rule import Edits, Rewrite, Site, breaks, holds, rejects

NEED = "what is quantized is a product of two values"


def rewrite(site: Site) -> Edits:
    """Quantize the first factor; multiply by the second one where codes are read."""
    return quantized_earlier(site, "mul", NEED)


RULE = Rewrite(
    code="QNT332",
    name="quantize-before-norm-weight",
    claim=Change.GRID,
    prose=__doc__,
    graph="""
        n: bf16[M, K]
        w: bf16[K]
        h: bf16 = n * w
        s: f32 = amax(h) / 448
        q: e4m3fn = h / s saturate
        y: f32 = q * s
        u: f32 = amax(n) / 448
        v: e4m3fn = n / u saturate
        z: f32 = v * u
    """,
    at=("q",),
    sizes={"M": 1, "K": 2},
    rewrite=rewrite,
    examples=(
        breaks(
            n=[[1, 10]], w=[1, "0x1p-4"], shows="y[0, 0]: 0x3f800000 -> 0x3f7b6db7"
        ),  # 55/56 in place of 1
        holds(n=[[448, 2]], w=[1, 1]),
        rejects(NEED, at=("v",), n=[[1, 10]], w=[1, 1]),
    ),
    title=lambda site: f"`{grid_at(site).name}` is quantized before the weight of the norm",
    loses=("domain",),
)
