"""QNT320 quantize-merged-shards: shards that are stored as one tensor share the largest scale.

Why it matters: query, key and value weights (or gate and up) are fused into one matrix product,
which takes one scale for the tensor. The shard with the smaller maximum loses digits, and falls
below the smallest number of the grid where it is far smaller. For normal values in e4m3fn nothing
happens down to a ratio of 1e-3 (a relative error of 0.026, as with its own scale); at 1e-4 it is
0.049, at 1e-5 0.49, and at 1e-6 every code is 0.
Legal: where the parts are of like size; see QNT354 for when a part is lost.
Error: half an ulp of the grid at the largest scale; at most 2^-10 of that scale where the grid is
subnormal (e4m3fn).
Source: OCP 8-bit Floating Point Specification (OFP8) 1.0, on the range of e4m3fn; vllm#5915 and
vllm#41022.
See also: QNT354, which finds parts that are lost; QNT303 for rows; QNT334 for codes that exist
already.
"""

from dataclasses import replace

from lastbit.change import Change
from lastbit.graph import Node, apply
from lastbit.patterns.quantized import NO_MAXIMUM, grid_at, quantized_at
from lastbit.rule import Edits, MismatchError, Require, Rewrite, Site, breaks, holds, rejects

NEED = "the maxima of the shards have one shape"


def rewrite(site: Site) -> Edits:
    """Let every scale follow from the largest maximum."""
    found = [quantized_at(replace(site, at=(name,))) for name in site.at]
    shared: Node = found[0].amax
    for shard in found[1:]:
        if shard.amax.shape != shared.shape:
            raise MismatchError(NEED)
        shared = apply("max", shared, shard.amax)
    edits: dict[str, Node] = {}
    for shard in found:
        edits |= shard.rescaled(shard.scaled_by(shared))
    return edits


RULE = Rewrite(
    code="QNT320",
    name="quantize-merged-shards",
    claim=Change.GRID,
    prose=__doc__,
    graph="""
        a: bf16[1, K]
        b: bf16[1, K]
        sa: f32 = amax(a) / 448
        sb: f32 = amax(b) / 448
        qa: e4m3fn = a / sa saturate
        qb: e4m3fn = b / sb saturate
        y: f32 = concat(qa * sa, qb * sb, axis=0)
        d: e4m3fn = a / 2 saturate
        sc: f32 = amax(transpose(a)) / 448
        qc: e4m3fn = transpose(a) / sc saturate
        z: f32 = qc * sc
    """,
    at=("qa", "qb"),
    sizes={"K": 1},
    rewrite=rewrite,
    requires=(Require("there are several shards", lambda site: len(set(site.at)) > 1),),
    examples=(
        breaks(a=[[1]], b=[[10]], shows="y[0, 0]: 0x3f800000 -> 0x3f7b6db7"),  # 55/56 in place of 1
        breaks(a=[["0x1p-20"]], b=[[10]]),  # 0 in place of 2**-20
        holds(a=[[2]], b=[[2]]),  # equal maxima
        rejects("there are several shards", at=("qa",), a=[[1]], b=[[10]]),
        rejects(NO_MAXIMUM, at=("d", "qb"), a=[[1]], b=[[10]]),
        rejects(NEED, at=("qa", "qc"), a=[[1, 2]], b=[[10, 3]]),
    ),
    title=lambda site: (
        " and ".join(f"`{grid_at(replace(site, at=(name,))).name}`" for name in site.at)
        + " share the largest of their scales"
    ),
    loses=("domain",),
)
