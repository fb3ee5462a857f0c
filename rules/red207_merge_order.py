"""RED207 merge-order: the partial sums stay, and they are added in another order.

Why it matters: pieces that are added as they come, by rank, by address or in a tree differ in the
last bits. 1 + 2^-24 + 2^-24 in f32 is 1 from the left and 1 + 2^-23 from the right.
Legal: as a reassociation, where the order is pinned.
Error: both orders keep the bound gamma(n - 1) times the sum of absolute partial sums.
Source: Higham, Accuracy and Stability of Numerical Algorithms, 2nd ed., sec. 4.1 and 4.2.
See also: RED201, which makes the pieces; RED208 for a merge that keeps the order; RED209 for any
other tree.
"""

import dataclasses

from lastbit.change import Change
from lastbit.patterns import one_by_one, one_format, pieces_of, schedule_in, sum_of
from lastbit.rule import Edits, MismatchError, Parameter, Rewrite, Site, breaks, holds, rejects
from lastbit.schedule import Lanes, Schedule, Split


def _schedule(site: Site) -> Schedule:
    total = sum_of(site)
    schedule = total.schedule
    if not isinstance(schedule, Split | Lanes):
        raise MismatchError("the sum has partial sums: split or lanes")
    backwards = one_by_one(reversed(range(len(pieces_of(schedule, total.length)))))
    return dataclasses.replace(schedule, outer=schedule_in(site, "outer", backwards))


def rewrite(site: Site) -> Edits:
    """Replace the outer level of the schedule."""
    return {site.name: sum_of(site).scheduled(_schedule(site))}


RULE = Rewrite(
    code="RED207",
    name="merge-order",
    claim=Change.REASSOCIATION,
    prose=__doc__,
    graph="""
        x: f32[K]
        y: f32 = sum(x) acc f32 split(3)
        z: f32 = sum(x) acc f32 seq
    """,
    at=("y",),
    sizes={"K": 3},
    rewrite=rewrite,
    parameters=(
        Parameter("outer", "schedule", "how the pieces are added; last first if not given", ""),
    ),
    requires=(one_format(_schedule),),
    examples=(
        breaks(
            x=(1, "0x1p-24", "0x1p-24"), shows="y: 0x3f800000 -> 0x3f800001"
        ),  # the last two first: one ulp more
        breaks({"outer": "tree((0, (1, 2)))"}, x=(1, "0x1p-24", "0x1p-24")),
        breaks(x=("-0x1.8p+127", "0x1.8p+127", "0x1.8p+127")),  # the last two overflow
        holds(x=(1, 2, 3)),  # exact in every order
        rejects(
            "every addition is in the accumulator's format",
            {"outer": "split(2, partials=bf16)"},
            x=1,
        ),
        rejects("the sum has partial sums: split or lanes", x=1, at=("z",)),
    ),
    loses=("domain", "deterministic"),
    title=lambda site: (
        f"the partial sums of `{site.name}` are added by "
        f"{site.text('outer') or 'seq, the last one first'}"
    ),
)
