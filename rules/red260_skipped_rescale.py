"""RED260 skipped-rescale: sums are not rescaled while the maximum grows little, but weights follow.

Why it matters: a small growth of the maximum needs no rescaling, if the block's weights stay
relative to the old one (RED262). A kernel that has formed them relative to the new maximum already,
and then skips, mixes two scales: earlier blocks count up to exp(threshold) times too much. Random
scores rarely move the maximum by little and often, so tests pass.
Legal: never.
Error: unbounded; each skipped step multiplies the weight of earlier blocks by up to exp(threshold).
Scores 0 and 6 to base 2 give 1/2 in place of 1/65.
Source: Milakov and Gimelshein, arXiv 1805.02867, theorem 1 (the invariant that is lost);
rocm-libraries#6498.
See also: RED262, where the weights keep the old reference too.
"""

from lastbit.change import Change
from lastbit.graph import Node, apply
from lastbit.patterns.attention import BLOCK, NEED, SEVERAL_BLOCKS, WHOLE_ROW, attention_at
from lastbit.patterns.rescaling import THRESHOLD, stays
from lastbit.rule import Edits, Rewrite, Site, breaks, holds, rejects


def rewrite(site: Site) -> Edits:
    """Take the factor of earlier sums as 1 where the maximum grows by at most the threshold."""
    found = attention_at(site)

    def follow(old: Node, top: Node) -> tuple[Node, Node]:
        _, factor = found.followed(old, top)
        return top, apply("select", stays(site, old, top), 1, factor)

    state = found.run(found.cut(site.integer("block")), follow=follow)
    return found.replaced(site, found.quotient(state))


RULE = Rewrite(
    code="RED260",
    name="skipped-rescale",
    claim=Change.MATH,
    prose=__doc__,
    graph=WHOLE_ROW.replace("exp(", "exp2("),
    at=("o",),
    sizes={"M": 1, "K": 2, "N": 1},
    rewrite=rewrite,
    parameters=(BLOCK, THRESHOLD),
    requires=(SEVERAL_BLOCKS,),
    examples=(
        breaks(
            {"block": 1}, s=[[0, 6]], v=[[1], [0]], shows="o: 0x3c7c0fc1 -> 0x3f000000"
        ),  # 1/2 in place of 1/65
        holds({"block": 1}, s=[[6, 0]], v=[[1], [0]]),  # the first block holds the maximum
        holds({"block": 1, "threshold": 5}, s=[[0, 6]], v=[[1], [0]]),  # it grows by more
        rejects("1 <= block < K", {"block": 2}, s=[[0, 6]], v=[[1], [0]]),
        rejects(NEED, {"block": 1}, at=("p",), s=[[0, 6]], v=[[1], [0]]),
    ),
    loses=("domain",),
    title=lambda site: (
        f"`{site.name}` does not rescale its sums where a block raises the maximum by at most "
        f"{site.integer('threshold')}, though the block's weights follow it"
    ),
)
