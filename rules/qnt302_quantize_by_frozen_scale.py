"""QNT302 quantize-by-frozen-scale: the scale of a row is taken from its first chunk alone.

Why it matters: it saves a pass over the row, or reuses a scale from calibration or from the
previous step. Whatever is larger than the chunk's maximum saturates, and a clamp is no rounding: in
a row of 256 with 1 and 10 as heads of its chunks, the 10 comes back as 1. A conversion that does
not saturate gives inf or NaN instead.
Legal: where the first chunk is known to hold the maximum, as after a calibration that bounds all
rows.
Error: unbounded; everything above the chunk's maximum is lost.
Source: OCP 8-bit Floating Point Specification (OFP8) 1.0, on saturation; Micikevicius et al., arXiv
2209.05433.
See also: QNT301, where the maximum grows from chunk to chunk.
"""

from lastbit.change import Change
from lastbit.patterns.quantized import (
    CHUNK,
    NO_MAXIMUM,
    ROW_SCALED,
    grid_at,
    quantized_at,
    shorter_than_row,
)
from lastbit.rule import Edits, Rewrite, Site, breaks, holds, rejects


def rewrite(site: Site) -> Edits:
    """Take the maximum over the first chunk."""
    found = quantized_at(site)
    return found.rescaled(found.scaled_by(found.block_maxima(site.integer("chunk"))[0]))


RULE = Rewrite(
    code="QNT302",
    name="quantize-by-frozen-scale",
    claim=Change.MATH,
    prose=__doc__,
    graph=ROW_SCALED + "\nd: e4m3fn = t / 2 saturate\n",
    at=("q",),
    sizes={"M": 1, "K": 2, "N": 1},
    rewrite=rewrite,
    parameters=(CHUNK,),
    requires=(shorter_than_row("chunk"),),
    examples=(
        breaks(
            {"chunk": 1}, t=[[1, 10]], w=[[0], [1]], shows="y: 0x4120 -> 0x3f80"
        ),  # 1 in place of 10
        breaks({"chunk": 1}, t=[[0, 10]], w=[[0], [1]]),  # a chunk of zeros: the scale is 0
        holds({"chunk": 1}, t=[[10, 1]], w=[[0], [1]]),  # the first chunk holds the maximum
        rejects("1 <= chunk < K", {"chunk": 2}, t=[[1, 10]], w=[[1], [0]]),
        rejects(NO_MAXIMUM, {"chunk": 1}, at=("d",), t=[[1, 10]], w=[[1], [0]]),
    ),
    loses=("domain",),
    title=lambda site: (
        f"the first {site.integer('chunk')} elements of a row set the scale of "
        f"`{grid_at(site).name}` for all of it"
    ),
)
