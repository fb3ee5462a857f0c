"""RED254 lost-rescale: the running sums of an online softmax do not follow the maximum.

Why it matters: when a block raises the maximum, what was summed before is too large by exp(m' - m)
until it is rescaled. A kernel that forgets it, for a tail block, a second warp or a split of the
keys, passes every test whose first block holds the maximum.
Legal: where the first block is known to hold the maximum; never else.
Error: unbounded; the weight of each earlier block is off by a factor of exp(m' - m).
Source: Milakov and Gimelshein, arXiv 1805.02867, theorem 1 (the invariant that is lost);
flashinfer#50 and flashinfer#58 (states merged with the wrong maximum).
See also: RED260, where only small steps are left out; RED262, where leaving them out is right.
"""

from lastbit.change import Change
from lastbit.patterns.attention import BLOCK, NEED, SEVERAL_BLOCKS, WHOLE_ROW, attention_at
from lastbit.rule import Edits, Rewrite, Site, breaks, holds, rejects


def rewrite(site: Site) -> Edits:
    """Add each block to sums that still refer to an earlier maximum."""
    found = attention_at(site)
    blocks = found.cut(site.integer("block"))
    return found.replaced(site, found.quotient(found.run(blocks, rescale=False)))


RULE = Rewrite(
    code="RED254",
    name="lost-rescale",
    claim=Change.MATH,
    prose=__doc__,
    graph=WHOLE_ROW,
    at=("o",),
    sizes={"M": 1, "K": 2, "N": 1},
    rewrite=rewrite,
    parameters=(BLOCK,),
    requires=(SEVERAL_BLOCKS,),
    examples=(
        breaks(
            {"block": 1}, s=[[0, 1]], v=[[1], [3]], shows="o: 0x401d9354 -> 0x40000000"
        ),  # 2 in place of (1 + 3e) / (1 + e)
        holds({"block": 1}, s=[[1, 0]], v=[[1], [3]]),  # the first block holds the maximum
        rejects("1 <= block < K", {"block": 2}, s=[[0, 1]], v=[[1], [3]]),
        rejects(NEED, {"block": 1}, at=("p",), s=[[0, 1]], v=[[1], [3]]),
    ),
    loses=("domain",),
    title=lambda site: (
        f"`{site.name}` does not rescale its sums when one of its blocks of "
        f"{site.integer('block')} scores raises the maximum"
    ),
)
