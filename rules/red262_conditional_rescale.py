"""RED262 conditional-rescale: sums and weights stay relative to a maximum until it grows by much.

Why it matters: rescaling the accumulator in each block is slow, and any reference that is not far
below the maximum serves as well, since it cancels in the quotient.
Legal: as a change of rounding, as long as a block's weights take the reference of the sums, and the
accumulator has room for weights up to exp(threshold).
Error: none over the reals; each rescaling that is spared is two roundings fewer, and the weights
are rounded at another scale. Sums grow by up to exp(threshold), 2^8 in FlashAttention-4.
Source: Milakov and Gimelshein, arXiv 1805.02867, theorem 1; flash-attention, the forward kernel for
Blackwell (`rescale_threshold`).
See also: RED260, where the weights do not keep the reference.
"""

from lastbit.change import Change
from lastbit.graph import Node, apply
from lastbit.patterns.attention import BLOCK, NEED, SEVERAL_BLOCKS, WHOLE_ROW, attention_at
from lastbit.patterns.rescaling import THRESHOLD, stays
from lastbit.rule import Edits, Rewrite, Site, breaks, holds, rejects


def rewrite(site: Site) -> Edits:
    """Keep the old reference where the maximum is at most the threshold above it."""
    found = attention_at(site)

    def follow(old: Node, top: Node) -> tuple[Node, Node]:
        return found.followed(old, apply("select", stays(site, old, top), old, top))

    state = found.run(found.cut(site.integer("block")), follow=follow)
    return found.replaced(site, found.quotient(state))


RULE = Rewrite(
    code="RED262",
    name="conditional-rescale",
    claim=Change.ROUNDING,
    prose=__doc__,
    graph=WHOLE_ROW,
    at=("o",),
    sizes={"M": 1, "K": 2, "N": 1},
    rewrite=rewrite,
    parameters=(BLOCK, THRESHOLD),
    requires=(SEVERAL_BLOCKS,),
    examples=(
        breaks({"block": 1}, s=[[0, 1]], v=[[3], [1]], shows="o: 0x3fc4d959 -> 0x3fc4d958"),
        holds({"block": 1}, s=[[1, 1]], v=[[1], [3]]),  # the maximum stays
        rejects("1 <= block < K", {"block": 2}, s=[[0, 1]], v=[[1], [3]]),
        rejects(NEED, {"block": 1}, at=("p",), s=[[0, 1]], v=[[1], [3]]),
    ),
    loses=("domain",),
    title=lambda site: (
        f"`{site.name}` keeps its reference where a block raises the maximum by at most "
        f"{site.integer('threshold')}"
    ),
)
