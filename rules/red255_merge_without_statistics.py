"""RED255 merge-without-statistics: chunk results of attention are averaged without their weights.

Why it matters: each chunk's result is already divided by its own sum of weights, so its share of
the whole row is lost. From the results 1 and 3 nobody can tell whether the weights were 1:2 (7/3)
or 2:1 (5/3). Chunks must hand on their maximum and sum, or their log-sum-exp.
Legal: where all chunks have equal sums of weights; never else.
Error: unbounded; the average is right only where all chunks have equal sums of weights.
Source: Ye et al., FlashInfer, arXiv 2501.01005, section 2.2 (the states that do compose).
See also: RED257, the merge with its statistics; RED258 with statistics that are misread.
"""

from lastbit.change import Change
from lastbit.graph import apply
from lastbit.patterns.attention import (
    BLOCK,
    NEED,
    SEVERAL_BLOCKS,
    WEIGHTS_VALUES,
    WHOLE_ROW,
    attention_at,
)
from lastbit.rule import Edits, MismatchError, Rewrite, Site, breaks, holds, rejects


def rewrite(site: Site) -> Edits:
    """Average the results of the chunks."""
    found = attention_at(site)
    if found.weighted is None:
        raise MismatchError(WEIGHTS_VALUES.text)
    blocks = found.cut(site.integer("block"))
    total, *rest = (found.round(found.quotient(found.part(block))) for block in blocks)
    for result in rest:
        total = found.round(apply("add", total, result))
    return found.replaced(site, apply("div", total, len(blocks)))


RULE = Rewrite(
    code="RED255",
    name="merge-without-statistics",
    claim=Change.MATH,
    prose=__doc__,
    graph=WHOLE_ROW + "\nc: f32 = softmax(s) acc f32 seq\n",
    at=("o",),
    sizes={"M": 1, "K": 2, "N": 1},
    rewrite=rewrite,
    parameters=(BLOCK,),
    requires=(SEVERAL_BLOCKS,),
    examples=(
        breaks(
            {"block": 1}, s=[[0, "0x1.62e43p-1"]], v=[[1], [3]], shows="o: 0x40155555 -> 0x40000000"
        ),  # 2 in place of 7/3
        breaks({"block": 1}, s=[["0x1.62e43p-1", 0]], v=[[1], [3]]),  # 2 in place of 5/3
        holds({"block": 1}, s=[[1, 1]], v=[[1], [3]]),  # equal weights
        rejects("1 <= block < K", {"block": 2}, s=[[0, 1]], v=[[1], [3]]),
        rejects("the softmax weighs values", {"block": 1}, at=("c",), s=[[0, 1]], v=[[1], [3]]),
        rejects(NEED, {"block": 1}, at=("u",), s=[[0, 1]], v=[[1], [3]]),
    ),
    loses=("domain",),
    title=lambda site: (
        f"`{site.name}` averages the results of chunks of {site.integer('block')} scores "
        "without their sums of weights"
    ),
)
