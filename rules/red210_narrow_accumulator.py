"""RED210 narrow-accumulator: a sum is accumulated in a narrower format.

Why it matters: it is faster on matrix units, and small terms are lost once the sum has grown. A sum
of ones in bf16 stops at 256.
Legal: as a change of rounding, for short sums, stated on both sides.
Error: gamma(K - 1) of the narrow format for seq, times the sum of absolute terms, which says
nothing any more once K u reaches 1 (256 terms of bf16).
Source: Higham, Accuracy and Stability of Numerical Algorithms, 2nd ed., sec. 4.2; Liger-Kernel#950.
See also: RED212 and RED266 for roundings between blocks; RED217 for matrix units; RED211 for
integers.
"""

from lastbit.change import Change
from lastbit.formats import format_of
from lastbit.patterns import sum_of, wide_format
from lastbit.rounding import Rounding
from lastbit.rule import Edits, Parameter, Require, Rewrite, Site, breaks, holds, rejects


def rewrite(site: Site) -> Edits:
    """Round the additions of the sum to `format`; the value keeps its own format."""
    total = sum_of(site)
    return {site.name: total.scheduled(total.schedule, Rounding.of(wide_format(site)))}


RULE = Rewrite(
    code="RED210",
    name="narrow-accumulator",
    claim=Change.ROUNDING,
    prose=__doc__,
    graph="""
        x: bf16[K]
        y: f32 = sum(x) acc f32 seq
    """,
    at=("y",),
    sizes={"K": 3},
    rewrite=rewrite,
    parameters=(Parameter("format", "format", "the format of the accumulator"),),
    requires=(
        Require(
            "format is narrower than the accumulator",
            lambda site: (
                format_of(site.text("format")).precision < sum_of(site).acc.format.precision
            ),
            lambda site: f"format={site.text('format')}, acc={sum_of(site).acc.format.short}",
        ),
    ),
    examples=(
        breaks(
            {"format": "bf16"}, x=(256, 1), shows="y: 0x43808000 -> 0x43800000"
        ),  # 257 lies between two bf16 values
        holds({"format": "bf16"}, x=(254, 1, 1)),  # every partial sum is a bf16 value
        rejects("format is no grid", {"format": "e4m3fn"}, x=1),
        rejects("format is narrower than the accumulator", {"format": "f64"}, x=1),
    ),
    loses=("domain",),
    title=lambda site: f"`{site.name}` is accumulated in {site.text('format')}",
)
