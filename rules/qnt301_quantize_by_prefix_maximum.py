"""QNT301 quantize-by-prefix-maximum: each chunk of a row is quantized by the maximum read so far.

Why it matters: a kernel that quantizes while it reads does not know the row's maximum yet. What has
been rounded with an early scale stays rounded so, whatever scale is used later: in a row of 256
with 1 and 10 as heads of its two chunks, the 1 comes back as 1 instead of 55/56.
Legal: where no other program has to give the same codes.
Error: half an ulp of the grid at the chunk's own scale; early chunks come out finer, never coarser,
than by the row's scale.
Source: OCP 8-bit Floating Point Specification (OFP8) 1.0, on conversions; compressed-tensors#394
(scales of another scope).
See also: QNT302, where one early maximum serves the whole row; QNT304, where each block has its
own.
"""

from lastbit.change import Change
from lastbit.graph import Node, apply
from lastbit.patterns.quantized import (
    CHUNK,
    NO_MAXIMUM,
    NO_SCALE,
    ROW_SCALED,
    grid_at,
    quantized_at,
)
from lastbit.patterns.requantized import requantized
from lastbit.rule import Edits, Require, Rewrite, Site, breaks, holds, rejects


def rewrite(site: Site) -> Edits:
    """Let the scale of each chunk follow from the chunks up to it."""
    found = quantized_at(site)
    size = site.integer("chunk")
    running: list[Node] = []
    for maximum in found.block_maxima(size):
        running.append(apply("max", running[-1], maximum) if running else maximum)
    return requantized(found, size, running)


RULE = Rewrite(
    code="QNT301",
    name="quantize-by-prefix-maximum",
    claim=Change.GRID,
    prose=__doc__,
    graph=ROW_SCALED
    + """
        c: e4m3fn = t saturate             # no scale
        d: e4m3fn = t / 2 saturate         # a fixed scale
    """,
    at=("q",),
    sizes={"M": 1, "K": 2, "N": 1},
    rewrite=rewrite,
    parameters=(CHUNK,),
    requires=(Require("1 <= chunk", lambda site: site.integer("chunk") >= 1),),
    examples=(
        breaks(
            {"chunk": 1}, t=[[1, 10]], w=[[1], [0]], shows="y: 0x3f7b -> 0x3f80"
        ),  # 1 in place of 55/56
        holds({"chunk": 1}, t=[[10, 1]], w=[[1], [0]]),  # the first chunk holds the maximum
        rejects("1 <= chunk", {"chunk": 0}, t=[[1, 10]], w=[[1], [0]]),
        rejects(NO_SCALE, {"chunk": 1}, at=("c",), t=[[1, 10]], w=[[1], [0]]),
        rejects(NO_MAXIMUM, {"chunk": 1}, at=("d",), t=[[1, 10]], w=[[1], [0]]),
    ),
    loses=("domain",),
    title=lambda site: (
        f"`{grid_at(site).name}` is quantized in chunks of {site.integer('chunk')}, "
        "each by the maximum read so far"
    ),
)
