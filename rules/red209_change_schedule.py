"""RED209 change-schedule: a sum is evaluated by another tree.

Why it matters: another library, tile shape, number of warps or vector width brings another tree,
and with it other bits, on the same input and with the same formats.
Legal: as a reassociation, where the tree is pinned.
Error: gamma(h) times the sum of absolute terms, where h is the height of the tree: the largest
number of additions that a term goes through.
Source: Higham, Accuracy and Stability of Numerical Algorithms, 2nd ed., sec. 4.1 and 4.2; Xie et
al., "FPRev" (arXiv 2411.00442), which reveals the trees of libraries.
See also: RED201 and RED206 for the two commonest trees; RED207, where the pieces stay.
"""

from lastbit.change import Change
from lastbit.patterns import one_format, sum_of
from lastbit.rule import Edits, Parameter, Rewrite, Site, breaks, holds, rejects
from lastbit.schedule import Schedule, parse_schedule


def _schedule(site: Site) -> Schedule:
    return parse_schedule(site.text("schedule"))


def rewrite(site: Site) -> Edits:
    """Replace the schedule of the sum."""
    return {site.name: sum_of(site).scheduled(_schedule(site))}


RULE = Rewrite(
    code="RED209",
    name="change-schedule",
    claim=Change.REASSOCIATION,
    prose=__doc__,
    graph="""
        x: f32[K]
        y: f32 = sum(x) acc f32 seq
    """,
    at=("y",),
    sizes={"K": 4},
    rewrite=rewrite,
    parameters=(Parameter("schedule", "schedule", "the schedule of the sum"),),
    requires=(one_format(_schedule),),
    examples=(
        breaks(
            {"schedule": "pairwise"}, x=(2**24, 1, 1, 1), shows="y: 0x4b800000 -> 0x4b800001"
        ),  # 1 + 1 is added at once
        breaks({"schedule": "lanes(2)"}, x=(2**24, 1, 1, 1)),
        breaks({"schedule": "pairwise"}, x=("0x1.8p+127", 0, "0x1.8p+127", "-0x1.8p+127")),  # inf
        holds({"schedule": "pairwise(4)"}, x=(2**24, 1, 1, 1)),  # one run of four terms: seq
        rejects(
            "every addition is in the accumulator's format",
            {"schedule": "split(2, partials=bf16)"},
            x=1,
        ),
    ),
    loses=("domain", "deterministic"),
    title=lambda site: f"`{site.name}` is summed by `{site.text('schedule')}`",
)
