"""RED206 block-partials: each block of terms is summed from zero, then added to the accumulator.

Why it matters: `acc += dot(a, b)` looks like one running accumulator and is two levels. The bits
depend on the block length, so a tuner that picks it picks the result.
Legal: as a reassociation, where the block is pinned.
Error: gamma(b + K/b - 2) replaces gamma(K - 1), times the sum of absolute terms, for blocks of b.
Source: Blanchard, Higham and Mary, "A Class of Fast and Accurate Summation Algorithms" (SIAM J.
Sci. Comput. 42(3), 2020), on blocked summation.
See also: RED205, where one accumulator runs through; RED201 for a fixed number of pieces.
"""

from lastbit.change import Change
from lastbit.patterns import BLOCK, ONE_FORMAT, sum_of
from lastbit.rule import Edits, Rewrite, Site, breaks, holds, rejects
from lastbit.schedule import Seq, Split


def rewrite(site: Site) -> Edits:
    """Split the schedule of the sum into blocks."""
    total = sum_of(site)
    schedule = Split(size=site.integer("block"), inner=total.schedule, outer=Seq())
    return {site.name: total.scheduled(schedule)}


RULE = Rewrite(
    code="RED206",
    name="block-partials",
    claim=Change.REASSOCIATION,
    prose=__doc__,
    graph="""
        x: f32[K]
        y: f32 = sum(x) acc f32 seq
        z: f32 = y * 2
        h: f32 = sum(x) acc f32 split(2, partials=bf16)
    """,
    at=("y",),
    sizes={"K": 4},
    rewrite=rewrite,
    parameters=(BLOCK,),
    requires=(ONE_FORMAT,),
    examples=(
        breaks(
            {"block": 2}, x=(1, "0x1p-8", "0x1p-24", "0x1p-24"), shows="z: 0x40008000 -> 0x40008001"
        ),  # the last two together count
        breaks({"block": 2}, x=("0x1p+127", 0, "0x1p+127", "-0x1.8p+127")),  # inf on the way
        holds({"block": 1}, x=(1, "0x1p-8", "0x1p-24", "0x1p-24")),  # blocks of one term
        rejects(ONE_FORMAT.text, {"block": 2}, x=1, at=("h",)),
        rejects("the value holds one sum", {"block": 2}, x=1, at=("z",)),
    ),
    loses=("domain",),
    title=lambda site: (
        f"`{site.name}` is summed in blocks of {site.integer('block')}, each from zero"
    ),
)
