"""QNT334 requantize: codes are multiplied by their scale and quantized again by another one.

Why it matters: where a fused matrix product takes one scale, loaders bring shards that were stored
with their own scales to the largest of them: the codes are restored and rounded a second time. The
original values are gone, so a value may end up a whole code away from what quantizing it by the
final scale would give. (Double rounding; with the rounding of the shared scale alone, see QNT320.)
Legal: where both sides requantize; the codes of the first scale are not what quantizing once would
give.
Error: half an ulp of the grid at the old scale, and half an ulp at the new one.
Source: Boldo and Melquiond, "Emulation of FMA and correctly rounded sums: proved algorithms using
rounding to odd" (IEEE Trans. Comput. 57(4), 2008), section 2 (double rounding); vllm#5915.
See also: QNT303 and QNT320 for values that are quantized once, by the shared scale.
"""

from lastbit.change import Change
from lastbit.graph import Node, Round, apply, native_rounding
from lastbit.patterns.quantized import (
    NO_MAXIMUM,
    ROW_SCALED,
    grid_at,
    over_tensor,
    quantized_at,
)
from lastbit.rule import Edits, Rewrite, Site, breaks, holds, rejects


def rewrite(site: Site) -> Edits:
    """Restore the codes, and quantize by the scale of the whole tensor."""
    found = quantized_at(site)
    new = found.scaled_by(over_tensor(found.amax))
    old: Node = found.formula
    held = native_rounding(found.scale)
    if held is not None:
        old = Round(old, held)
    codes = Round(apply("div", found.numerator, old), found.node.rounding)
    scale = found.scale if held is not None else new
    again = Round(apply("div", apply("mul", codes, old), scale), found.node.rounding)
    return {**found.rescaled(new), **found.replaced(again)}


RULE = Rewrite(
    code="QNT334",
    name="requantize",
    claim=Change.GRID,
    prose=__doc__,
    graph=ROW_SCALED + "\nd: e4m3fn = t / 2 saturate\n",
    at=("q",),
    sizes={"M": 2, "K": 2, "N": 1},
    rewrite=rewrite,
    examples=(
        breaks(t=[[1, 10], [0, 15]], w=[[1], [0]], shows="y[0, 0]: 0x3f7b -> 0x3f81"),
        holds(t=[[2, 1], [2, 1]], w=[[1], [1]]),  # equal scales: the second rounding keeps all
        rejects(NO_MAXIMUM, at=("d",), t=[[1, 10], [0, 15]], w=[[1], [0]]),
    ),
    title=lambda site: f"the codes of `{grid_at(site).name}` are quantized again by another scale",
    loses=("domain", "batch_invariant"),
)
