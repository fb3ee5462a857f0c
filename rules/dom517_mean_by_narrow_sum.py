"""DOM517 mean-by-narrow-sum: the sum of a mean is stored in a narrow format before it is divided.

Why it matters: a mean lies within the range of its terms, its sum does not. 2000 terms of 60 have
the sum 120000, more than binary16 holds, so a mean that is computed as a stored sum and a division
is inf where the answer is 60. The accumulator may be as wide as it likes.
Legal: as a change of rounding, where n times the largest term is below the end of the format.
Error: u of the narrow format more (2^-11 of f16), and an infinite mean where n times it is beyond
the format's range.
Source: IEEE 754-2019, clause 7.4; burn#4770, tt-metal#55159.
See also: DOM531, which finds such means.
"""

from lastbit.change import Change
from lastbit.graph import Round
from lastbit.patterns import NO_GRID_FORMAT, mean_in, replace, same_format
from lastbit.rounding import Rounding
from lastbit.rule import Edits, Parameter, Rewrite, Site, breaks, holds, rejects


def rewrite(site: Site) -> Edits:
    """Round the sum to `format` in front of the division."""
    total, mean = mean_in(site.node)
    stored = Round(total.node, Rounding.of(site.text("format")))
    new = replace(mean, total.node, stored)
    return {site.name: same_format(site.node, replace(site.node, mean, new))}


RULE = Rewrite(
    code="DOM517",
    name="mean-by-narrow-sum",
    claim=Change.ROUNDING,
    prose=__doc__,
    graph="""
        x: f16[K]
        y: f16 = mean(x) acc f32 seq
        z: f16 = sum(x) acc f32 seq
    """,
    at=("y",),
    sizes={"K": 3},
    rewrite=rewrite,
    parameters=(Parameter("format", "format", "the format in which the sum is stored", "f16"),),
    requires=(NO_GRID_FORMAT,),
    examples=(
        breaks(x=[60] * 2000, shows="y: 0x5380 -> 0x7c00"),  # inf in place of 60
        breaks(x=(2048, 1, 0)),  # 2049 is no f16
        holds(x=(1, 2, 3)),
        rejects("format is no grid", {"format": "e4m3fn"}, x=1),
        rejects("the value is a mean", at=("z",), x=1),
    ),
    loses=("domain",),
    title=lambda site: (
        f"the sum of the mean `{site.name}` is stored in {site.text('format')} before it is divided"
    ),
)
