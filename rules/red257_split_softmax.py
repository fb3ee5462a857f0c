"""RED257 split-softmax: chunks of attention are finished alone and merged by their log-sum-exp.

Why it matters: decoding has one query and many keys, so kernels split the keys over the GPU
(Flash-Decoding), and cascade and context-parallel attention do the same over caches and ranks. Each
chunk gives its result and lse = max + log(sum of weights); the merge weighs the results by exp(lse
- max lse). Over the reals that is the same softmax. The number of chunks usually follows from the
batch, so the bits of a row depend on its neighbours.
Legal: as a change of rounding, where the number of chunks does not follow the batch.
Error: about four roundings a chunk, and the absolute error of lse becomes a relative one.
Source: Dao et al., Flash-Decoding for long-context inference (PyTorch blog, 2023); Ye et al.,
FlashInfer, arXiv 2501.01005, section 2.2.
See also: RED251 for blocks that one kernel reads in turn; RED255 and RED258 for merges that are
wrong; RED271 for empty chunks.
"""

from lastbit.change import Change
from lastbit.patterns.attention import (
    BLOCK,
    NEED,
    SEVERAL_BLOCKS,
    WEIGHTS_VALUES,
    WHOLE_ROW,
    attention_at,
)
from lastbit.rule import Edits, Rewrite, Site, breaks, holds, rejects


def rewrite(site: Site) -> Edits:
    """Merge the results of the chunks by their log-sum-exp, in the base of the weights."""
    found = attention_at(site)
    blocks = found.cut(site.integer("block"))
    return found.replaced(site, found.merged(blocks, found.log, found.fn))


RULE = Rewrite(
    code="RED257",
    name="split-softmax",
    claim=Change.ROUNDING,
    prose=__doc__,
    graph=WHOLE_ROW + "\nc: f32 = softmax(s) acc f32 seq\n",
    at=("o",),
    sizes={"M": 1, "K": 4, "N": 1},
    rewrite=rewrite,
    parameters=(BLOCK,),
    requires=(WEIGHTS_VALUES, SEVERAL_BLOCKS),
    examples=(
        breaks(
            {"block": 1}, s=[[1, 0]], v=[[3], [3]], shows="o: 0x40400000 -> 0x40400001"
        ),  # above 3, though all values are 3
        holds({"block": 1}, s=[[1, 1, 1, 1]], v=[[1], [2], [3], [4]]),  # all weights are 1
        rejects("1 <= block < K", {"block": 4}, s=[[0, 0, 0, 1]], v=[[1], [3], [5], [7]]),
        rejects("the softmax weighs values", {"block": 1}, at=("c",), s=[[0, 1]], v=[[1], [3]]),
        rejects(NEED, {"block": 1}, at=("u",), s=[[0, 1]], v=[[1], [3]]),
    ),
    loses=("domain",),
    title=lambda site: (
        f"`{site.name}` is merged from chunks of {site.integer('block')} scores by their "
        "log-sum-exp"
    ),
)
