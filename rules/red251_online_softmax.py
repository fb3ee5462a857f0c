"""RED251 online-softmax: a row of scores is read block by block, with a running maximum.

Why it matters: this is how flash attention avoids storing scores and weights. The maximum m, the
sum of weights l and the weighted sum u of the blocks read so far are kept; when a block raises the
maximum to m', l and u are multiplied by exp(m - m') before the block is added. Over the reals the
result is the same; in floating point the factor, the products and the new sums are rounded. A block
whose keys are all masked before any other was read gives exp(-inf + inf), NaN.
Legal: as a change of rounding, where every row has a key; else with a guard (RED271).
Error: at most three roundings more for each block that raises the maximum, relative to l and u.
Source: Milakov and Gimelshein, arXiv 1805.02867, algorithm 3; Dao et al., arXiv 2205.14135,
algorithm 1; flashinfer#4051 (masked blocks).
See also: RED252 and RED253 for order and size of the blocks; RED257 for chunks that are merged;
RED254 and RED260 for what goes wrong.
"""

from lastbit.change import Change
from lastbit.patterns.attention import BLOCK, NEED, SEVERAL_BLOCKS, WHOLE_ROW, attention_at
from lastbit.rule import Edits, Rewrite, Site, breaks, holds, rejects


def rewrite(site: Site) -> Edits:
    """Unroll the recurrence over the blocks of a row."""
    found = attention_at(site)
    blocks = found.cut(site.integer("block"))
    return found.replaced(site, found.quotient(found.run(blocks)))


RULE = Rewrite(
    code="RED251",
    name="online-softmax",
    claim=Change.ROUNDING,
    prose=__doc__,
    graph=WHOLE_ROW,
    at=("o",),
    sizes={"M": 1, "K": 4, "N": 1},
    rewrite=rewrite,
    parameters=(BLOCK,),
    requires=(SEVERAL_BLOCKS,),
    examples=(
        breaks({"block": 1}, s=[[0, 0, 1]], v=[[5], [1], [7]], shows="o: 0x40a9be32 -> 0x40a9be33"),
        breaks({"block": 2}, s=[[0, 0, 0, 1]], v=[[1], [3], [5], [7]]),
        holds({"block": 2}, s=[[1, 1, 1, 1]], v=[[1], [2], [3], [4]]),  # all weights are 1
        rejects("1 <= block < K", {"block": 4}, s=[[0, 0, 0, 1]], v=[[1], [3], [5], [7]]),
        rejects(NEED, {"block": 2}, at=("l",), s=[[0, 0, 0, 1]], v=[[1], [3], [5], [7]]),
    ),
    loses=("domain",),
    title=lambda site: (
        f"`{site.name}` reads its scores in blocks of {site.integer('block')}, "
        "with a running maximum"
    ),
)
