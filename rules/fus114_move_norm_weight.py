"""FUS114 move-norm-weight: the weight of a norm moves to the other side of the rounding.

Why it matters: Llama rounds the normalised value and multiplies it by the weight then; Gemma
multiplies first and rounds once. Both are references for their own models, and a fused kernel that
takes the other order changes a quarter of the elements of a bf16 row by one ulp.
Legal: as a change of rounding; a kernel that serves a model has to follow the order of that model.
Error: one rounding appears or disappears, relative error at most u of its format (2^-8 of bf16):
1.0024414 times 1.75 is 1.75 with the rounding and 1.7578125 without.
Source: Zhang and Sennrich, "Root Mean Square Layer Normalization" (arXiv 1910.07467);
transformers#29402, lmdeploy#2842.
"""

from lastbit.change import Change
from lastbit.graph import Node, Round
from lastbit.patterns import NO_GRID, replace
from lastbit.patterns.norms import NO_NORM, Norm, norm_in
from lastbit.rule import Edits, Rewrite, Site, breaks, holds, rejects


def _rounded_first(norm: Norm) -> bool:
    written = norm.written
    return isinstance(written, Round) and written.rounding.format == norm.rounding.rounding.format


def rewrite(site: Site) -> Edits:
    """Take the rounding off the normalised value, or put one on it."""
    norm = norm_in(site, site.node)
    new: Node = Round(norm.normalised, norm.rounding.rounding)
    if _rounded_first(norm) and isinstance(norm.written, Round):
        new = norm.written.x
    product = replace(norm.product, norm.normalised, new)
    return {site.name: replace(site.node, norm.product, product)}


RULE = Rewrite(
    code="FUS114",
    name="move-norm-weight",
    claim=Change.ROUNDING,
    prose=__doc__,
    graph="""
        x: f32[M, K]
        w: bf16[K]
        v: f32[M, 1]                       # the mean square of each row
        n: bf16 = x * rsqrt(v)
        y: bf16 = n * w                    # rounded, then weighted
        g: bf16 = x * rsqrt(v) * w         # weighted, then rounded
        q: e4m3fn = x * rsqrt(v) * w saturate
        z: bf16 = x * w
    """,
    at=("y",),
    sizes={"M": 2, "K": 2},
    rewrite=rewrite,
    requires=(NO_GRID,),
    loses=("domain",),
    examples=(
        breaks(
            x="0x1.00ap+0", w=1.75, v=1, shows="y[0, 0]: 0x3fe0 -> 0x3fe1"
        ),  # 1.7578125 in place of 1.75
        breaks(x="0x1.00ap+0", w=1.75, v=1, at=("g",)),  # and the other way round
        breaks(x="0x1.fffffep+127", w=0.5, v=1),  # inf where it is rounded first
        holds(x="0x1.00ap+0", w=2, v=1),  # a power of two scales both alike
        rejects(NO_GRID.text, x=1, w=1, v=1, at=("q",)),
        rejects(NO_NORM, x=1, w=1, v=1, at=("z",)),
    ),
    title=lambda site: (
        f"`{site.name}` multiplies by its weight "
        f"{'before' if _rounded_first(norm_in(site, site.node)) else 'after'} "
        "the normalised value is rounded"
    ),
)
