"""RED215 drop-tail: the loop over blocks of terms leaves out the last, incomplete block.

Why it matters: K // b blocks instead of ceil(K / b). Every length that tests use is a multiple of
the block, and the first that is not loses terms.
Legal: where the block divides K, and then it leaves out nothing.
Error: not bounded by any number of ulp; the sum of other terms is computed.
Source: Triton, tutorial 03 "Matrix Multiplication", whose loop runs to `tl.cdiv(K, BLOCK_SIZE_K)`
and masks the last block for this reason.
"""

from lastbit.change import Change
from lastbit.graph import take
from lastbit.patterns import BLOCK, sum_length, sum_of
from lastbit.rule import Edits, Require, Rewrite, Site, breaks, holds, rejects


def rewrite(site: Site) -> Edits:
    """Sum the whole blocks only."""
    total = sum_of(site)
    whole = total.length - total.length % site.integer("block")
    return {site.name: total.replaced(total.over(take(total.terms, total.axis, 0, whole)))}


RULE = Rewrite(
    code="RED215",
    name="drop-tail",
    claim=Change.MATH,
    prose=__doc__,
    graph="""
        x: f32[K]
        y: f32 = sum(x) acc f32 seq
    """,
    at=("y",),
    sizes={"K": 3},
    rewrite=rewrite,
    parameters=(BLOCK,),
    requires=(
        Require(
            "block does not divide K",
            lambda site: sum_length(site) % site.integer("block") != 0,
            lambda site: f"K={sum_length(site)}, block={site.integer('block')}",
        ),
    ),
    examples=(
        breaks({"block": 2}, x=1, shows="y: 0x40400000 -> 0x40000000"),  # 3 against 2
        holds({"block": 2}, x=(1, 1, 0)),  # what is lost is zero
        rejects("block does not divide K", {"block": 3}, x=1),
    ),
    loses=("domain",),
    title=lambda site: (
        f"`{site.name}` leaves out its last {sum_length(site) % site.integer('block')} terms"
    ),
)
