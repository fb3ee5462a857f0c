"""QNT317 hoist-block-scale: sums over blocks with a scale each are added first and scaled once.

Why it matters: matrix units accumulate over all of K as fast as they can; scales for blocks of K
(DeepSeek-V3, MX formats) must multiply each block's sum before it is added to the others. A kernel
that keeps one accumulator and applies a single scale computes something else, and nearly the right
thing where all blocks have about the same maximum.
Legal: where the scales of a row are equal; never else.
Error: unbounded; each block is off by the ratio of its scale to the one that was applied.
Source: DeepSeek-V3, arXiv 2412.19437, section 3.3.2; OCP Microscaling Formats (MX) 1.0, section 6.2
(the dot product of scaled blocks).
See also: QNT315 for scales that are constant along K.
"""

from lastbit.change import Change
from lastbit.formats import F32
from lastbit.graph import apply, native_rounding
from lastbit.patterns import add_up, same_format
from lastbit.patterns.scales import NO_SCALED_SUMS, scaled_sums
from lastbit.rounding import Rounding
from lastbit.rule import Edits, Rewrite, Site, breaks, holds, rejects


def rewrite(site: Site) -> Edits:
    """Add the sums of all blocks, and multiply by the first block's scale."""
    pairs = scaled_sums(site, site.node)
    acc = native_rounding(pairs[0][0]) or Rounding.of(F32)
    total = add_up((total for total, _ in pairs), acc)
    return {site.name: same_format(site.node, apply("mul", total, pairs[0][1]))}


RULE = Rewrite(
    code="QNT317",
    name="hoist-block-scale",
    claim=Change.MATH,
    prose=__doc__,
    graph="""
        q: e4m3fn[M, K]
        s: f32[M, 2]                           # a scale for each half of a row
        w: bf16[K, N]
        a: f32 = matmul(q[:, 0:K//2], w[0:K//2, :]) acc f32 seq
        b: f32 = matmul(q[:, K//2:K], w[K//2:K, :]) acc f32 seq
        y: f32 = round(a * s[:, 0:1], f32) + b * s[:, 1:2]
        z: f32 = a * s[:, 0:1]
        v: f32 = a * s[:, 0:1] + w[0:1, :]
    """,
    at=("y",),
    sizes={"M": 1, "K": 2, "N": 1},
    rewrite=rewrite,
    examples=(
        breaks(
            q=[[1, 1]], s=[[1, 3]], w=[[1], [1]], shows="y: 0x40800000 -> 0x40000000"
        ),  # 2 in place of 4
        holds(q=[[1, 1]], s=[[3, 3]], w=[[1], [1]]),  # equal scales
        rejects(NO_SCALED_SUMS, at=("z",), q=[[1, 1]], s=[[1, 3]], w=[[1], [1]]),
        rejects(NO_SCALED_SUMS, at=("v",), q=[[1, 1]], s=[[1, 3]], w=[[1], [1]]),
    ),
    title=lambda site: f"the scale of the first block multiplies all blocks of `{site.name}`",
    loses=("domain",),
)
