"""RED212 running-spill: the accumulator is stored in a narrow format after each block of terms.

Why it matters: a loop order that visits each output several times writes the partial result back in
between. Stored in the output's format instead of the accumulator's, it is rounded each time.
Legal: as a change of rounding, stated on both sides.
Error: one rounding to the narrow format for each block: gamma(K/b - 1) of it, times the sum of
absolute terms, for blocks of b.
Source: Higham, Accuracy and Stability of Numerical Algorithms, 2nd ed., sec. 4.2; Liger-Kernel#950
(accumulation in bf16).
See also: RED266, where each block is rounded before it is added; RED210, where every addition is.
"""

from lastbit.change import Change
from lastbit.graph import Node, Round, chunks, concat
from lastbit.patterns import BLOCK, NO_GRID_FORMAT, stored_between_blocks, sum_of
from lastbit.rounding import Rounding
from lastbit.rule import Edits, Parameter, Rewrite, Site, breaks, holds, rejects


def rewrite(site: Site) -> Edits:
    """Unroll the loop over blocks; the accumulator is rounded between two of them."""
    total = sum_of(site)
    spilled = Rounding.of(site.text("format"))
    running: Node | None = None
    for terms in chunks(total.terms, total.axis, site.integer("block")):
        if running is not None:
            terms = concat((Round(running, spilled), terms), total.axis)
        running = total.over(terms)
    assert running is not None
    return {site.name: total.replaced(running)}


RULE = Rewrite(
    code="RED212",
    name="running-spill",
    claim=Change.ROUNDING,
    prose=__doc__,
    graph="""
        x: f32[K]
        y: bf16 = sum(x) acc f32 seq
    """,
    at=("y",),
    sizes={"K": 3},
    rewrite=rewrite,
    parameters=(
        BLOCK,
        Parameter("format", "format", "the format that is stored between blocks", "bf16"),
    ),
    requires=(NO_GRID_FORMAT,),
    examples=(
        breaks(
            {"block": 1}, x=(1, "0x1p-8", "0x1p-8"), shows="y: 0x3f81 -> 0x3f80"
        ),  # 1 + 2^-8 ties to even, twice
        holds({"block": 2}, x=(1, "0x1p-7", "0x1p-7")),  # what is stored is a bf16 value
        rejects("format is no grid", {"block": 1, "format": "int8"}, x=1),
    ),
    loses=("domain",),
    title=lambda site: (
        f"the accumulator of `{site.name}` is stored in {site.text('format')} "
        f"every {site.integer('block')} terms"
    ),
    places=stored_between_blocks,
)
