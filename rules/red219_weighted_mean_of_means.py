"""RED219 weighted-mean-of-means: the means of blocks are merged, each weighted by its terms.

Why it matters: this is what accumulated gradients need, where micro-batches hold different numbers
of tokens; without the weights (RED213) it is another mean. Over the reals it is the mean of all
terms, but each mean and each product is rounded, so another micro-batch size is another result.
Legal: as a change of rounding, where the micro-batches are pinned.
Error: gamma(b + K/b) in place of gamma(K - 1), times the mean of absolute terms, for blocks of b:
each mean and each product is rounded, besides the sums.
Source: Chan, Golub and LeVeque, "Algorithms for Computing the Sample Variance" (The American
Statistician 37(3), 1983); transformers#34191 and torchtune#1875 (weights forgotten).
See also: RED213 without the weights.
"""

from lastbit.change import Change
from lastbit.graph import Round, apply, chunks, reshape
from lastbit.patterns import BLOCK, add_up, mean_in, replace, same_format
from lastbit.rule import Edits, Rewrite, Site, breaks, holds, rejects


def rewrite(site: Site) -> Edits:
    """Weight the mean of each block by its number of terms, add up, divide by all."""
    total, mean = mean_in(site.node)
    weighted = []
    for block in chunks(total.terms, total.axis, site.integer("block")):
        count = block.shape[total.axis]
        own = Round(apply("div", total.over(block), count), total.acc)
        weighted.append(Round(apply("mul", own, count), total.acc))
    merged = apply("div", add_up(weighted, total.acc), total.length)
    view = reshape(merged, mean.shape)
    return {site.name: same_format(site.node, replace(site.node, mean, view))}


RULE = Rewrite(
    code="RED219",
    name="weighted-mean-of-means",
    claim=Change.ROUNDING,
    prose=__doc__,
    graph="""
        x: f32[K]
        y: f32 = mean(x) acc f32 seq
        z: f32 = sum(x) / 7 acc f32 seq
    """,
    at=("y",),
    sizes={"K": 4},
    rewrite=rewrite,
    parameters=(BLOCK,),
    examples=(
        breaks(
            {"block": 7}, x=(25, *[1] * 6, 0), shows="y: 0x40780000 -> 0x4077ffff"
        ),  # 31 / 7, rounded, times 7 is not 31
        holds({"block": 9}, x=(*[1] * 9, 2)),  # nine losses of 1 and one of 2: 1.1 either way
        breaks({"block": 2}, x=("0x1.8p+127", 0, "0x1.8p+127", "-0x1.8p+127")),  # finite, not inf
        holds({"block": 2}, x=(1, 2, 3, 4)),
        rejects("the value is a mean", {"block": 2}, x=1, at=("z",)),
    ),
    loses=("domain",),
    title=lambda site: (
        f"`{site.name}` merges the means of blocks of {site.integer('block')}, each weighted by "
        "its number of terms"
    ),
)
