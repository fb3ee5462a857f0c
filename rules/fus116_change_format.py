"""FUS116 change-format: an intermediate value is held in another format.

Why it matters: a residual kept in f32 by one kernel and in bf16 by another gives 31 of 100 elements
of a normalised row other bits, and over 64 layers the difference grows.
Legal: as a change of rounding, as for any rounding that is dropped (FUS102).
Error: one rounding takes another unit roundoff: relative errors of at most u of either format.
Source: Higham, Accuracy and Stability of Numerical Algorithms, 2nd ed., sec. 2.2; pytorch#158699
(the shape of the code).
See also: FUS102, where no rounding is left; FUS119, where some readers see the old one.
"""

from lastbit.change import Change
from lastbit.graph import Round
from lastbit.patterns import NO_GRID, NO_GRID_FORMAT, NO_RESULT, outer_rounding, unrounded
from lastbit.rounding import Rounding
from lastbit.rule import Edits, Parameter, Rewrite, Site, breaks, holds, rejects


def rewrite(site: Site) -> Edits:
    """Round the value to `format` instead."""
    return {site.name: Round(unrounded(site.node), Rounding.of(site.text("format")))}


RULE = Rewrite(
    code="FUS116",
    name="change-format",
    claim=Change.ROUNDING,
    prose=__doc__,
    graph="""
        x: bf16[N]
        r: bf16[N]
        h: bf16 = x + r
        y: bf16 = h * r
        q: e4m3fn = x / 2 saturate
        z: bf16 = q * r
    """,
    at=("h",),
    sizes={"N": 1},
    rewrite=rewrite,
    parameters=(Parameter("format", "format", "the format that holds the value"),),
    requires=(NO_GRID, NO_GRID_FORMAT, NO_RESULT),
    examples=(
        breaks(
            {"format": "f32"}, x=1.5, r=193, shows="y: 0x4712 -> 0x4713"
        ),  # 194.5 ties to even, down
        holds({"format": "f32"}, x=2, r=193),  # the sum is a bf16 value
        rejects("the value is rounded to a format that is no grid", {"format": "f32"}, at=("q",)),
        rejects("format is no grid", {"format": "int8"}),
        rejects("the value is no result of the program", {"format": "f32"}, at=("y",)),
    ),
    loses=("domain",),
    title=lambda site: (
        f"`{site.name}` is held in {site.text('format')} instead of "
        f"{outer_rounding(site.node).rounding.format.short}"
    ),
)
