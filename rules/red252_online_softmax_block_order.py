"""RED252 online-softmax-block-order: the blocks of an online softmax are read in another order.

Why it matters: a causal mask is cheapest from the diagonal backwards, ring attention starts at the
rank's own block, and work stealing starts anywhere. Which block raises the maximum, and so which
sums are rescaled, depends on that order.
Legal: as a change of rounding, where the order is pinned.
Error: as for the online form itself, at most three roundings for each block that raises the
maximum; an ascending row rescales in every step, a descending one in none.
Source: Liu et al., Ring Attention, arXiv 2310.01889; Dao et al., arXiv 2205.14135, section 3.1.
"""

from lastbit.change import Change
from lastbit.patterns.attention import BLOCK, NEED, SEVERAL_BLOCKS, WHOLE_ROW, attention_at
from lastbit.patterns.blocks import Block
from lastbit.rule import Edits, Parameter, Rewrite, Site, breaks, holds, rejects


def reordered(blocks: tuple[Block, ...], order: str) -> tuple[Block, ...]:
    """Return blocks in the order of that name."""
    if order == "reverse":
        return blocks[::-1]
    if order == "rotate":
        return blocks[1:] + blocks[:1]
    return blocks[::2] + blocks[1::2]


def rewrite(site: Site) -> Edits:
    """Read the blocks in the given order; a row that is not read blockwise becomes so."""
    found = attention_at(site)
    blocks = reordered(found.cut(site.integer("block")), site.text("order"))
    return found.replaced(site, found.quotient(found.run(blocks)))


ORDER = Parameter(
    "order",
    "choice",
    "`reverse`, `rotate` (the first block comes last) or `even-odd`",
    "reverse",
    ("reverse", "rotate", "even-odd"),
)

RULE = Rewrite(
    code="RED252",
    name="online-softmax-block-order",
    claim=Change.ROUNDING,
    prose=__doc__,
    graph=WHOLE_ROW,
    at=("o",),
    sizes={"M": 1, "K": 4, "N": 1},
    rewrite=rewrite,
    parameters=(BLOCK, ORDER),
    requires=(SEVERAL_BLOCKS,),
    examples=(
        breaks(
            {"block": 1}, s=[[1, 0]], v=[[3], [3]], shows="o: 0x40400000 -> 0x40400001"
        ),  # above 3, though all values are 3
        breaks({"block": 1, "order": "rotate"}, s=[[0, 1, 2, 3]], v=[[1], [3], [5], [7]]),
        breaks({"block": 1, "order": "even-odd"}, s=[[0, 0, 1]], v=[[1], [1], [3]]),
        holds({"block": 2}, s=[[1, 1, 1, 1]], v=[[1], [2], [3], [4]]),  # all weights are 1
        rejects("1 <= block < K", {"block": 5}, s=[[0, 0, 0, 1]], v=[[1], [3], [5], [7]]),
        rejects(NEED, {"block": 2}, at=("u",), s=[[0, 0, 0, 1]], v=[[1], [3], [5], [7]]),
    ),
    loses=("domain",),
    title=lambda site: (
        f"`{site.name}` reads its blocks of {site.integer('block')} scores in the order "
        f"`{site.text('order')}`"
    ),
)
