"""FUS144 scale-queries: a matrix product is scaled through its left operand, not afterwards.

Why it matters: attention multiplies its scores by 1 / sqrt(d). Scaling the queries costs d products
for a row instead of one for each key, so kernels and compilers move it. The scaled queries are
rounded to their own 16-bit format; scores scaled in an f32 accumulator are not.
Legal: as a change of rounding; bit for bit for powers of two (FUS145).
Error: u of the left operand's format (2^-8 of bf16) in each of its elements.
Source: Vaswani et al., "Attention Is All You Need" (arXiv 1706.03762), section 3.2.1;
pytorch#115151.
See also: FUS145 for powers of two; FUS146 for a number for each row; QNT315 the other way round.
"""

from lastbit.change import Change
from lastbit.patterns.products import NO_SCALE, scaled_product
from lastbit.rule import Edits, Require, Rewrite, Site, breaks, holds, rejects


def rewrite(site: Site) -> Edits:
    """Scale the left operand and round it to its own format."""
    return scaled_product(site).scaled_before()


RULE = Rewrite(
    code="FUS144",
    name="scale-queries",
    claim=Change.ROUNDING,
    prose=__doc__,
    graph="""
        q: bf16[M, K]
        k: bf16[N, K]
        c: f32 = matmul(q, transpose(k)) acc f32 seq
        s: f32 = c / sqrt(2)
        e: e4m3fn[M, K]
        t: f32 = matmul(e, transpose(k)) * 0.1 acc f32 seq
        z: f32 = c + 1
    """,
    at=("s",),
    sizes={"M": 1, "K": 1, "N": 1},
    rewrite=rewrite,
    requires=(
        Require(
            "the left operand's format is no grid",
            lambda site: not scaled_product(site).format.format.is_grid,
            lambda site: scaled_product(site).format.format.short,
        ),
    ),
    loses=("domain",),
    examples=(
        breaks(
            q=1, k=1, e=0, shows="s: 0x3f3504f3 -> 0x3f350000"
        ),  # 181/256 in place of 0.70710677
        holds(q=0, k=1, e=0),
        rejects("the left operand's format is no grid", q=1, k=1, e=1, at=("t",)),
        rejects(NO_SCALE, q=1, k=1, e=1, at=("z",)),
    ),
    title=lambda site: (
        f"the left operand of `{site.name}` is scaled and rounded to "
        f"{scaled_product(site).format}; the product is not scaled afterwards"
    ),
)
