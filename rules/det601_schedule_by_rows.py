"""DET601 schedule-by-rows: another schedule sums a row where the call has few rows.

Why it matters: libraries and compilers pick a kernel by shape: a matrix-vector product for one row,
stream-K where the tiles do not fill the processors, several warps a row in a norm while rows are
few. Each choice repeats from run to run, so a flag named "deterministic" keeps it, and yet a row
has other bits alone than in a batch.
Legal: where only runs of one shape are compared.
Error: gamma(h) times the sum of absolute terms for either schedule, h the height of its tree.
Source: pytorch#180832 (a reduction configured by rows) and pytorch#136338 (a row alone); Osama et
al., "Stream-K" (arXiv 2301.03598); Higham, Accuracy and Stability of Numerical Algorithms, 2nd ed.,
sec. 4.2.
See also: RED209, where all calls take the other schedule.
"""

from lastbit.change import Change
from lastbit.patterns import ONE_FORMAT, one_format, sum_of
from lastbit.rule import (
    Edits,
    MismatchError,
    Parameter,
    Require,
    Rewrite,
    Site,
    breaks,
    holds,
    rejects,
)
from lastbit.schedule import deterministic, parse_schedule

HAS_ROWS = "each row of the first axis has a sum of its own"


def _is_few(site: Site) -> bool:
    total = sum_of(site)
    if len(site.node.shape) < 2 or total.axis == 0:
        raise MismatchError(HAS_ROWS)
    return site.node.shape[0] < site.integer("rows")


def rewrite(site: Site) -> Edits:
    """Take the other schedule below the limit; from there on the sum keeps its own."""
    few = parse_schedule(site.text("few"))
    return {site.name: sum_of(site).scheduled(few) if _is_few(site) else site.node}


RULE = Rewrite(
    code="DET601",
    name="schedule-by-rows",
    claim=Change.REASSOCIATION,
    prose=__doc__,
    graph="""
        x: f32[M, K]
        y: f32 = sum(x) acc f32 seq
        z: f32 = sum(x, axis=0) acc f32 seq
    """,
    at=("y",),
    sizes={"M": 1, "K": 4},
    rewrite=rewrite,
    parameters=(
        Parameter("rows", "count", "rows from which on the sum keeps its schedule", counts="rows"),
        Parameter("few", "schedule", "the schedule where there are fewer rows"),
    ),
    requires=(
        Require(
            "few has an order",
            lambda site: deterministic(parse_schedule(site.text("few"))),
            lambda site: f"few={site.text('few')}",
        ),
        one_format(lambda site: parse_schedule(site.text("few"))),
    ),
    examples=(
        breaks(
            {"rows": 2, "few": "pairwise"},
            x=[[2**24, 1, 1, 1]],
            shows="y: 0x4b800000 -> 0x4b800001",
        ),  # 1 + 1 is added at once
        breaks(
            {"rows": 2, "few": "pairwise"}, x=[["0x1.8p+127", 0, "0x1.8p+127", "-0x1.8p+127"]]
        ),  # inf where the terms are added in turn
        holds({"rows": 2, "few": "pairwise"}, x=[[2**24, 1, 1, 1]] * 2),  # two rows are enough
        rejects("few has an order", {"rows": 2, "few": "any_order"}, x=1),
        rejects(ONE_FORMAT.text, {"rows": 2, "few": "split(2, partials=f16)"}, x=1),
        rejects(HAS_ROWS, {"rows": 2, "few": "pairwise"}, at=("z",), x=1),
    ),
    title=lambda site: (
        f"below {site.integer('rows')} rows `{site.name}` is summed by `{site.text('few')}`"
    ),
    loses=("domain", "batch_invariant"),
)
