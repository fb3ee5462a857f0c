"""RED266 accumulate-into-output: each block's sum is rounded, then added to a narrow output.

Why it matters: y += a b with beta = 1, and gradients that are accumulated over micro-batches, keep
their running value in memory in the output's format. Every block's sum is rounded to it, and so is
the sum of the two. Once the value has grown to 2^p times a block's sum (256 times in bf16), nothing
is added any more.
Legal: as a change of rounding, for few blocks, stated on both sides.
Error: gamma(2 K/b - 1) of the narrow format, times the sum of absolute block sums, for blocks of b.
Source: Higham, Accuracy and Stability of Numerical Algorithms, 2nd ed., sec. 4.2; Liger-Kernel#950
and modular#7165 (accumulation in the output's format).
See also: RED212, where only the running value is rounded.
"""

from lastbit.change import Change
from lastbit.graph import Round, apply, chunks
from lastbit.patterns import BLOCK, NO_GRID_FORMAT, stored_between_blocks, sum_of
from lastbit.rounding import Rounding
from lastbit.rule import Edits, Parameter, Rewrite, Site, breaks, holds, rejects


def rewrite(site: Site) -> Edits:
    """Round the sum of each block, and add it to what is stored."""
    total = sum_of(site)
    stored = Rounding.of(site.text("format"))
    blocks = chunks(total.terms, total.axis, site.integer("block"))
    output, *sums = (Round(total.over(block), stored) for block in blocks)
    for own in sums:
        output = Round(apply("add", output, own), stored)
    return {site.name: total.replaced(output)}


RULE = Rewrite(
    code="RED266",
    name="accumulate-into-output",
    claim=Change.ROUNDING,
    prose=__doc__,
    graph="""
        x: f32[K]
        y: bf16 = sum(x) acc f32 seq
        z: f32 = x * 2
    """,
    at=("y",),
    sizes={"K": 3},
    rewrite=rewrite,
    parameters=(
        BLOCK,
        Parameter("format", "format", "the format of the output that is added to", "bf16"),
    ),
    requires=(NO_GRID_FORMAT,),
    examples=(
        breaks({"block": 1}, x=(256.5, -256, 1), shows="y: 0x3fc0 -> 0x3f80"),  # 1 in place of 1.5
        breaks({"block": 1}, x=(*[1] * 258,)),  # ones stop at 256
        holds({"block": 3}, x=(256.5, -256, 1)),  # one block
        rejects("format is no grid", {"block": 1, "format": "e5m2"}, x=1),
        rejects("the value holds one sum", {"block": 1}, x=1, at=("z",)),
    ),
    loses=("domain",),
    title=lambda site: (
        f"`{site.name}` adds each sum of {site.integer('block')} terms to an output in "
        f"{site.text('format')}"
    ),
    places=stored_between_blocks,
)
