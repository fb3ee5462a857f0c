"""QNT304 quantize-per-column-block: each block of a row is quantized by its own maximum.

Why it matters: blocks of 128 or 32 with a scale each (DeepSeek-V3, MX formats) keep outliers from
coarsening a whole row, and a tile can be quantized as soon as it is read. Every code changes with
its block's scale, and the scales can no longer be factored out of the sum over the row.
Legal: where both sides state the same blocks.
Error: half an ulp of the grid at the block's scale, which is never above the row's.
Source: DeepSeek-V3, arXiv 2412.19437, section 3.3.2; OCP Microscaling Formats (MX) 1.0.
See also: QNT321 for the parts of devices; QNT301 for a maximum that grows.
"""

from lastbit.change import Change
from lastbit.patterns.quantized import (
    NO_MAXIMUM,
    ROW_SCALED,
    grid_at,
    quantized_at,
    row_length,
    shorter_than_row,
)
from lastbit.patterns.requantized import requantized
from lastbit.rule import Edits, Parameter, Rewrite, Site, breaks, holds, rejects


def rewrite(site: Site) -> Edits:
    """Let the scale of each block follow from its own maximum."""
    found = quantized_at(site)
    size = site.integer("block")
    return requantized(found, size, found.block_maxima(size))


RULE = Rewrite(
    code="QNT304",
    name="quantize-per-column-block",
    claim=Change.GRID,
    prose=__doc__,
    graph=ROW_SCALED + "\nd: e4m3fn = t / 2 saturate\n",
    at=("q",),
    sizes={"M": 1, "K": 2, "N": 1},
    rewrite=rewrite,
    parameters=(Parameter("block", "length", "elements that share a scale", axis=row_length),),
    requires=(shorter_than_row("block"),),
    examples=(
        breaks(
            {"block": 1}, t=[[10, 1]], w=[[0], [1]], shows="y: 0x3f7b -> 0x3f80"
        ),  # 1 in place of 55/56
        holds({"block": 1}, t=[[2, 2]], w=[[1], [1]]),  # equal maxima
        rejects("1 <= block < K", {"block": 0}, t=[[10, 1]], w=[[0], [1]]),
        rejects(NO_MAXIMUM, {"block": 1}, at=("d",), t=[[10, 1]], w=[[0], [1]]),
    ),
    loses=("domain",),
    title=lambda site: (
        f"`{grid_at(site).name}` is quantized in blocks of {site.integer('block')}, "
        "each by its own maximum"
    ),
)
