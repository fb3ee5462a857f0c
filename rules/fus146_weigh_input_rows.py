"""FUS146 weigh-input-rows: a weight for each row multiplies the input of a product, not its result.

Why it matters: a mixture of experts weighs each expert's output by the router's score. Fused
kernels offer to weigh the input instead (`apply_router_weight_on_input`), which saves a pass over
the outputs; the weighted input is rounded to its own 16-bit format, the weighted accumulator is
not. Moved on past the activation of the expert, the weight is part of another function: some models
are trained so, and a kernel that takes the other side serves another model.
Legal: across one product only, as a change of rounding; never across an activation. Bit for bit
where the weights are powers of two in range.
Error: u of the input's format (2^-8 of bf16) in each weighted element.
Source: Shazeer et al., "Outrageously Large Neural Networks" (arXiv 1701.06538), section 2 (the
weighted sum of experts); vLLM, fused mixture-of-experts kernels.
See also: FUS144, the same with one number for all rows; DET605, the order of the experts.
"""

from lastbit.change import Change
from lastbit.patterns.products import NO_ROW_SCALE, row_scaled_product
from lastbit.rule import Edits, Require, Rewrite, Site, breaks, holds, rejects


def rewrite(site: Site) -> Edits:
    """Scale the rows of the left operand and round them to their own format."""
    return row_scaled_product(site).scaled_before()


RULE = Rewrite(
    code="FUS146",
    name="weigh-input-rows",
    claim=Change.ROUNDING,
    prose=__doc__,
    graph="""
        x: bf16[M, K]
        w: bf16[K, N]
        r: f32[M, 1]                       # the router's weights
        c: f32 = matmul(x, w) acc f32 seq
        y: f32 = c * r
        q: e4m3fn[M, K]
        t: f32 = matmul(q, w) * r acc f32 seq
        z: f32 = c * 2
    """,
    at=("y",),
    sizes={"M": 2, "K": 1, "N": 1},
    rewrite=rewrite,
    requires=(
        Require(
            "the left operand's format is no grid",
            lambda site: not row_scaled_product(site).format.format.is_grid,
            lambda site: row_scaled_product(site).format.format.short,
        ),
    ),
    loses=("domain",),
    examples=(
        breaks(
            x=3, w=3, r=[["0x1.01p+0"], [1]], q=0, shows="y[0, 0]: 0x41109000 -> 0x4110c000"
        ),  # 3 + 3 * 2^-8 is no bf16
        breaks(x="0x1p+100", w="0x1p-100", r="0x1p+100", q=0),  # the weighted input overflows
        holds(x=3, w=5, r=[[0.5], [2]], q=0),
        rejects("the left operand's format is no grid", x=1, w=1, r=1, q=1, at=("t",)),
        rejects(NO_ROW_SCALE, x=1, w=1, r=1, q=1, at=("z",)),
    ),
    title=lambda site: (
        f"the rows of the left operand of `{site.name}` are weighted and rounded to "
        f"{row_scaled_product(site).format}; the product is not weighted afterwards"
    ),
)
