"""RED258 merge-in-wrong-base: chunks are merged by log-sum-exps of another base.

Why it matters: kernels that use exp2 return a log-sum-exp to base 2, others one to base e, and both
are plain floats. Read in the wrong base, the shares of the chunks are raised to the power 1.44 or
0.69: the results stay plausible, and short contexts hide it.
Legal: never.
Error: unbounded in the shares; the result stays between those of the chunks.
Source: flashinfer#2113 (base 2 against base e), sglang#40903 (chunks of a prefix merged in the
wrong base).
See also: RED274, which finds such merges; RED255, where the statistics are missing.
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
from lastbit.rule import Edits, MismatchError, Rewrite, Site, breaks, holds, rejects


def rewrite(site: Site) -> Edits:
    """Merge the results of the chunks, with the exponential of the other base."""
    found = attention_at(site)
    if found.weighted is None:
        raise MismatchError(WEIGHTS_VALUES.text)
    blocks = found.cut(site.integer("block"))
    other = "exp2" if found.fn == "exp" else "exp"
    return found.replaced(site, found.merged(blocks, found.log, other))


RULE = Rewrite(
    code="RED258",
    name="merge-in-wrong-base",
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
            {"block": 1}, s=[[0, 1]], v=[[1], [3]], shows="o: 0x401d9354 -> 0x40155555"
        ),  # shares 1:2 in place of 1:e
        holds({"block": 1}, s=[[1, 1]], v=[[1], [3]]),  # equal shares in any base
        rejects("1 <= block < K", {"block": 2}, s=[[0, 1]], v=[[1], [3]]),
        rejects("the softmax weighs values", {"block": 1}, at=("c",), s=[[0, 1]], v=[[1], [3]]),
        rejects(NEED, {"block": 1}, at=("u",), s=[[0, 1]], v=[[1], [3]]),
    ),
    loses=("domain",),
    title=lambda site: (
        f"`{site.name}` merges chunks of {site.integer('block')} scores by log-sum-exps of "
        "another base"
    ),
)
