"""QNT303 quantize-per-tensor: one scale for the whole tensor replaces one for each row.

Why it matters: per-tensor scaled matrix products exist on every GPU, row-scaled ones do not. The
maximum then runs over the batch as well: a row's codes depend on the other requests of the batch,
and a single outlier costs every row bits.
Legal: where both sides state the same scope, and a row may depend on its batch.
Error: half an ulp of the grid at the tensor's scale: amax(tensor) / amax(row) times that of the
row's own scale, until values fall below the grid's smallest number.
Source: Micikevicius et al., arXiv 2209.05433; Xiao et al., SmoothQuant, arXiv 2211.10438, section 3
(granularities and outliers).
See also: QNT320 for parts of one weight; QNT334 for codes that exist already.
"""

from lastbit.change import Change
from lastbit.patterns.quantized import (
    NO_MAXIMUM,
    ROW_SCALED,
    grid_at,
    over_tensor,
    quantized_at,
)
from lastbit.rule import Edits, Rewrite, Site, breaks, holds, rejects


def rewrite(site: Site) -> Edits:
    """Let the maximum run over the other axes too."""
    found = quantized_at(site)
    return found.rescaled(found.scaled_by(over_tensor(found.amax)))


RULE = Rewrite(
    code="QNT303",
    name="quantize-per-tensor",
    claim=Change.GRID,
    prose=__doc__,
    graph=ROW_SCALED + "\nd: e4m3fn = t / 2 saturate\n",
    at=("q",),
    sizes={"M": 2, "K": 1, "N": 1},
    rewrite=rewrite,
    examples=(
        breaks(t=[[1], [10]], w=[[1]], shows="y[0, 0]: 0x3f80 -> 0x3f7b"),  # 55/56 in place of 1
        holds(t=[[2], [2]], w=[[1]]),  # equal maxima
        rejects(NO_MAXIMUM, at=("d",), t=[[1], [10]], w=[[1]]),
    ),
    loses=("domain", "batch_invariant"),
    title=lambda site: (
        f"`{grid_at(site).name}` is scaled by one maximum over the whole tensor, its batch included"
    ),
)
