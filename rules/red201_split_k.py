"""RED201 split-k: one long sum becomes several partial sums, added afterwards.

Why it matters: floating-point addition is not associative, so the result's bits depend on `n`,
which launch heuristics pick from the batch size or the number of processors.
Legal: as a reassociation, where `n` does not follow the batch.
Error: gamma(K/n + n - 2) replaces gamma(K - 1), times the sum of absolute terms, where gamma(m) = m
u / (1 - m u) and u is the unit roundoff of the accumulator.
Source: Higham, Accuracy and Stability of Numerical Algorithms, 2nd ed., sec. 4.2; Osama et al.,
"Stream-K" (arXiv 2301.03598), on why kernels split K.
See also: RED207 for the order in which the pieces are added; RED209 for any tree; RED203 for narrow
pieces; RED204 for atomics.
"""

from lastbit.change import Change
from lastbit.patterns import (
    PIECES,
    TILE,
    one_format,
    pieces_said,
    schedule_in,
    split_across_blocks,
    sum_of,
)
from lastbit.rule import Edits, Parameter, Rewrite, Site, breaks, holds, rejects
from lastbit.schedule import Seq, Split


def _schedule(site: Site) -> Split:
    inner = schedule_in(site, "inner", sum_of(site).schedule)
    outer = schedule_in(site, "outer", Seq())
    return Split(site.integer("n"), tile=site.integer("tile"), inner=inner, outer=outer)


def rewrite(site: Site) -> Edits:
    """Split the schedule of the sum."""
    return {site.name: sum_of(site).scheduled(_schedule(site))}


RULE = Rewrite(
    code="RED201",
    name="split-k",
    claim=Change.REASSOCIATION,
    prose=__doc__,
    graph="""
        x: f32[K]
        y: f32 = sum(x) acc f32 seq
        z: f32 = y * 2
        e: f32 = sum(x)
    """,
    at=("y",),
    sizes={"K": 4},
    rewrite=rewrite,
    parameters=(
        PIECES,
        TILE,
        Parameter("inner", "schedule", "the schedule of a piece; the sum's where not given", ""),
        Parameter(
            "outer", "schedule", "the schedule that adds the pieces; seq where not given", ""
        ),
    ),
    requires=(one_format(_schedule),),
    examples=(
        holds({"n": 2}, x=(1, 2, 3, 4)),  # every partial sum is exact
        breaks(
            {"n": 2}, x=(2**24, 1, 1, 1), shows="z: 0x4c000000 -> 0x4c000001"
        ),  # 2^24 + 1 ties to even
        breaks({"n": 4, "outer": "pairwise"}, x=(2**24, 1, 1, 1)),
        breaks({"n": 2}, x=("0x1p+127", 0, "0x1p+127", "-0x1.8p+127")),  # inf on the way
        rejects(
            "every addition is in the accumulator's format",
            {"n": 2, "outer": "split(2, partials=bf16)"},
            x=1,
        ),
        rejects("the value holds one sum", {"n": 2}, x=1, at=("z",)),
        rejects("the sum has an accumulator and a schedule", {"n": 2}, x=1, at=("e",)),
    ),
    loses=("domain", "deterministic"),
    title=lambda site: (
        f"`{site.name}` is summed in {pieces_said(site, _schedule(site))} (`{_schedule(site)}`) "
        "that are added afterwards"
    ),
    places=split_across_blocks,
)
