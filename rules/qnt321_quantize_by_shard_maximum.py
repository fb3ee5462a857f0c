"""QNT321 quantize-by-shard-maximum: each device scales its part of a row by the part's maximum.

Why it matters: where a matrix product is split along K over devices (row parallel), each device
holds a part of every row. A scale from the part saves the exchange of the maximum, and makes the
codes depend on the number of devices: the same model on 4 and on 8 of them gives other bits.
Legal: where results are compared at one number of devices.
Error: half an ulp of the grid at the part's own scale, which is never above that of the row.
Source: Shoeybi et al., Megatron-LM, arXiv 1909.08053, section 3 (parts of a row on devices);
TransformerEngine#3045 and compressed-tensors#394 (the scope of scales).
See also: QNT304 for blocks that do not follow the devices.
"""

from lastbit.change import Change
from lastbit.patterns.quantized import NO_MAXIMUM, ROW_SCALED, grid_at, quantized_at
from lastbit.patterns.requantized import requantized
from lastbit.rule import Edits, Parameter, Rewrite, Site, breaks, holds, rejects


def rewrite(site: Site) -> Edits:
    """Let the scale of each device's part follow from its own maximum."""
    found = quantized_at(site)
    size = -(-found.length // site.integer("n"))
    return requantized(found, size, found.block_maxima(size))


RULE = Rewrite(
    code="QNT321",
    name="quantize-by-shard-maximum",
    claim=Change.GRID,
    prose=__doc__,
    graph=ROW_SCALED + "\nd: e4m3fn = t / 2 saturate\n",
    at=("q",),
    sizes={"M": 1, "K": 2, "N": 1},
    rewrite=rewrite,
    parameters=(
        Parameter("n", "count", "the number of devices that hold a row", counts="devices"),
    ),
    examples=(
        breaks(
            {"n": 2}, t=[[10, 1]], w=[[0], [1]], shows="y: 0x3f7b -> 0x3f80"
        ),  # 1 in place of 55/56
        holds({"n": 2}, t=[[2, 2]], w=[[1], [1]]),  # equal maxima
        rejects(NO_MAXIMUM, {"n": 2}, at=("d",), t=[[10, 1]], w=[[0], [1]]),
    ),
    title=lambda site: (
        f"each of {site.integer('n')} devices scales its part of `{grid_at(site).name}` "
        "by its own maximum"
    ),
    loses=("domain", "layout_invariant"),
)
