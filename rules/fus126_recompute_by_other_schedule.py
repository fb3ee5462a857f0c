"""FUS126 recompute-by-other-schedule: a value is computed again for later readers, by another tree.

Why it matters: activation checkpointing drops a forward value and computes it again for the
backward pass. Where a tuner, or a compiler that sees another graph, picks another kernel for the
second time, the two passes work on two numbers: a gradient belongs to a value that the forward pass
never had, and an expert or a mask that was chosen from it may be another one.
Legal: bit for bit only where both computations have one schedule; else as a reassociation, where
nothing discrete is chosen from the value.
Error: gamma(h) times the sum of absolute terms for either tree, h its height.
Source: Chen et al., "Training Deep Nets with Sublinear Memory Cost" (arXiv 1604.06174), on
recomputation; torchtitan#3600.
See also: FUS119, where the copy has another format; RED209, where all readers see the other tree.
"""

from lastbit.change import Change
from lastbit.patterns import one_format, reread, sum_of
from lastbit.rule import Edits, Parameter, Rewrite, Site, breaks, holds, rejects
from lastbit.schedule import Schedule, parse_schedule

NEED = "the site names a value and the readers of its second computation"


def _schedule(site: Site) -> Schedule:
    return parse_schedule(site.text("schedule"))


def rewrite(site: Site) -> Edits:
    """Give the readers the sum by the other schedule; all others read it as it was."""
    return reread(site, sum_of(site).scheduled(_schedule(site)), NEED)


RULE = Rewrite(
    code="FUS126",
    name="recompute-by-other-schedule",
    claim=Change.REASSOCIATION,
    prose=__doc__,
    graph="""
        x: f32[M, K]
        g: f32[M, 1]                       # the gradient of y
        s: f32 = sum(x) acc f32 seq
        y: f32 = s * 3                     # forward
        d: f32 = g * s                     # backward
        e: f32 = g * 3
    """,
    at=("s", "d"),
    sizes={"M": 1, "K": 4},
    rewrite=rewrite,
    parameters=(Parameter("schedule", "schedule", "the schedule of the second computation"),),
    requires=(one_format(_schedule),),
    loses=("domain", "deterministic"),
    examples=(
        breaks(
            {"schedule": "pairwise"}, x=[[2**24, 1, 1, 1]], g=1, shows="d: 0x4b800000 -> 0x4b800001"
        ),  # 1 + 1 is added at once
        breaks({"schedule": "pairwise"}, x=[["0x1.8p+127", 0, "0x1.8p+127", "-0x1.8p+127"]], g=1),
        holds({"schedule": "pairwise"}, x=[[1, 2, 3, 4]], g=1),  # exact in every tree
        rejects(
            "every addition is in the accumulator's format",
            {"schedule": "split(2, partials=bf16)"},
            x=1,
            g=1,
        ),
        rejects(NEED, {"schedule": "pairwise"}, x=1, g=1, at=("s", "e")),
    ),
    title=lambda site: (
        f"{', '.join(f'`{name}`' for name in site.at[1:])} reads `{site.name}` summed again by "
        f"`{site.text('schedule')}`"
    ),
)
