"""RED213 mean-of-means: a mean is computed as the mean of the means of blocks, without weights.

Why it matters: it is right only where all blocks have as many terms. The last block is often
shorter, and each of its terms then counts for more.
Legal: where all blocks have as many terms; then as a change of rounding.
Error: none over the reals where the blocks are equal (a change of rounding then); else the result
is another weighted mean.
Source: Chan, Golub and LeVeque, "Algorithms for Computing the Sample Variance" (The American
Statistician 37(3), 1983), whose merge formulas weight each part by its number of terms.
See also: RED219, the mean with weights.
"""

from lastbit.change import Change
from lastbit.graph import Reduce, Round, apply, chunks, concat
from lastbit.patterns import BLOCK, mean_in, replace, same_format
from lastbit.rule import Edits, Rewrite, Site, breaks, holds, rejects
from lastbit.schedule import Seq


def rewrite(site: Site) -> Edits:
    """Take the mean of each block, and the mean of these."""
    total, mean = mean_in(site.node)
    axis = total.axis
    means = [
        Round(apply("div", total.over(block), block.shape[axis]), total.acc)
        for block in chunks(total.terms, axis, site.integer("block"))
    ]
    merged = apply("div", Reduce("sum", concat(means, axis), axis, Seq(), total.acc), len(means))
    view = replace(mean.xs[0], total.node, merged)  # the sum may be viewed before it is divided
    return {site.name: same_format(site.node, replace(site.node, mean, view))}


RULE = Rewrite(
    code="RED213",
    name="mean-of-means",
    claim=Change.MATH,
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
            {"block": 2}, x=(1, 1, 4), shows="y: 0x40000000 -> 0x40200000"
        ),  # 2 against (1 + 4) / 2
        breaks({"block": 9}, x=(*[1] * 9, 2)),  # 1.5 in place of 1.1
        breaks({"block": 2}, x=(2**24, 1, 1, 1)),  # equal blocks: only the rounding changes
        breaks({"block": 2}, x=("0x1.8p+127", 0, "0x1.8p+127", "-0x1.8p+127")),  # finite, not inf
        holds({"block": 2}, x=(1, 2, 3, 4)),  # equal blocks and exact sums
        rejects("the value is a mean", {"block": 2}, x=1, at=("z",)),
    ),
    loses=("domain",),
    title=lambda site: (
        f"`{site.name}` is the unweighted mean of the means of blocks of {site.integer('block')}"
    ),
)
