"""QNT315 dequantize-after-accumulation: a scale multiplies the sum instead of its operands.

Why it matters: matrix units multiply codes, so the scale of a row or column is applied once, in the
epilogue. A reference that restores the operands first and rounds them (q * s in bf16) adds other
terms. Scales for blocks of K belong inside.
Legal: as a change of rounding, for scales that are the same for all terms of a sum.
Error: the roundings of the restored operands, u each, disappear; one rounding of the product with
the scale is added. Exact for scales that are powers of two.
Source: Jacob et al., arXiv 1712.05877, section 2.2 (the multiplier behind the integer sum);
DeepSeek-V3, arXiv 2412.19437, section 3.3.2 (scales along K stay inside).
See also: QNT317 for scales along K, which may not leave the sum.
"""

from lastbit.change import Change
from lastbit.graph import Node, apply
from lastbit.patterns import sum_of
from lastbit.patterns.scales import NO_FACTOR, hoisted
from lastbit.rule import Edits, Rewrite, Site, breaks, holds, rejects


def rewrite(site: Site) -> Edits:
    """Sum without the scales, and multiply by them."""
    total = sum_of(site)
    found = hoisted(site, total)
    out: Node = total.over(found.terms)
    for scale in found.scales:
        out = apply("mul", out, scale)
    return {site.name: total.replaced(out)}


RULE = Rewrite(
    code="QNT315",
    name="dequantize-after-accumulation",
    claim=Change.ROUNDING,
    prose=__doc__,
    graph="""
        q: e4m3fn[M, K]
        s: f32[M, 1]
        b: f32[M, K]                           # a scale for each element
        w: bf16[K, N]
        d: bf16 = q * s
        y: f32 = matmul(d, w) acc f32 seq
        e: f32 = matmul(q * b, w) acc f32 seq
        z: f32 = sum(q) acc f32 seq
    """,
    at=("y",),
    sizes={"M": 1, "K": 2, "N": 1},
    rewrite=rewrite,
    examples=(
        breaks(
            q=[[3, 5]], s=[["0x1.01p+0"]], b=0, w=[[1], [1]], shows="y: 0x4100c000 -> 0x41008000"
        ),  # d rounds 3 + 3 * 2**-8
        holds(q=[[3, 5]], s=[[4]], b=0, w=[[1], [1]]),  # a power of two
        rejects(NO_FACTOR, at=("e",), q=[[3, 5]], s=[[4]], b=1, w=[[1], [1]]),
        rejects(NO_FACTOR, at=("z",), q=[[3, 5]], s=[[4]], b=1, w=[[1], [1]]),
    ),
    title=lambda site: f"the sum `{site.name}` is multiplied by the scale of its operands",
    loses=("domain",),
)
