"""RED253 online-softmax-block-size: an online softmax gets another block size.

Why it matters: the block size follows from shared memory and from the head dimension, and tuners
choose it per shape and per GPU. It decides which scores share a maximum and how often the sums are
rescaled, so a tuned kernel gives other bits.
Legal: as a change of rounding, where the block is pinned.
Error: at most three roundings for each block that raises the maximum; one block for the whole row
rescales nothing.
Source: Dao, FlashAttention-2, arXiv 2307.08691, section 3.3 (block sizes); pytorch#180832 (a block
size that a tuner changed).
"""

from lastbit.change import Change
from lastbit.patterns.attention import BLOCK, TWO_BLOCKS, attention_at
from lastbit.rule import Edits, MismatchError, Require, Rewrite, Site, breaks, holds, rejects


def rewrite(site: Site) -> Edits:
    """Write the online form again, with blocks of the new size."""
    found = attention_at(site)
    if not found.blocks:
        raise MismatchError("the softmax is read blockwise")
    blocks = found.cut(site.integer("block"))
    return found.replaced(site, found.quotient(found.run(blocks)))


RULE = Rewrite(
    code="RED253",
    name="online-softmax-block-size",
    claim=Change.ROUNDING,
    prose=__doc__,
    graph=TWO_BLOCKS,
    at=("o",),
    sizes={"M": 1, "K": 4, "N": 1},
    rewrite=rewrite,
    parameters=(BLOCK,),
    requires=(Require("1 <= block", lambda site: site.integer("block") >= 1),),
    examples=(
        breaks(
            {"block": 1},
            s=[[0, 0, 0, 2]],
            v=[[1], [1], [3], [3]],
            shows="o: 0x40275bd3 -> 0x40275bd2",
        ),
        breaks({"block": 4}, s=[[0, 0, 0, 1]], v=[[1], [3], [5], [7]]),
        holds({"block": 1}, s=[[1, 1, 1, 1]], v=[[1], [2], [3], [4]]),  # all weights are 1
        rejects("1 <= block", {"block": 0}, s=[[0, 0, 0, 1]], v=[[1], [3], [5], [7]]),
        rejects(
            "the softmax is read blockwise",
            {"block": 1},
            at=("w",),
            s=[[0, 0, 0, 1]],
            v=[[1], [3], [5], [7]],
        ),
    ),
    loses=("domain",),
    title=lambda site: f"`{site.name}` reads its scores in blocks of {site.integer('block')}",
)
