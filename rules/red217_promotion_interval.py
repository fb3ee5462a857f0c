"""RED217 promotion-interval: a matrix unit's partial sum is promoted after another number of terms.

Why it matters: a matrix unit may keep fewer digits than the format of its accumulator. Hopper's for
FP8 keeps 13 fraction bits and cuts off the rest, always toward zero, so a long chain of positive
terms comes out too small. Kernels therefore add its partial sum to a binary32 accumulator in
ordinary registers every so many terms, such as 128; a fast mode that leaves this out, an interval
of K or more, is another result.
Legal: as a change of rounding, with the interval stated on both sides.
Error: on positive e4m3 data with K = 4096 the mean relative error is 6.6e-2 without promotion and
5e-4 with one every 128 terms.
Source: DeepGEMM#37 and #50 (promotion every 128 terms); Khattak and Mikaitis, "Accurate Models of
NVIDIA Tensor Cores" (arXiv 2512.07004).
See also: RED210 for accumulators of a narrower format.
"""

from lastbit.change import Change
from lastbit.patterns import only, sum_length, sum_of
from lastbit.rule import Edits, Parameter, Rewrite, Site, breaks, holds, rejects
from lastbit.schedule import Fused, Promote, levels

NEED = "one matrix unit adds the terms of the sum"


def rewrite(site: Site) -> Edits:
    """Promote what the matrix unit has added every `every` terms."""
    total = sum_of(site)
    unit = only([level for level in levels(total.schedule) if isinstance(level, Fused)], NEED)
    promoted = Promote(site.integer("every"), site.text("format"), unit)
    return {site.name: total.scheduled(promoted)}


LARGE, SMALL = ([[first, *[0] * 31, 1, *[0] * 31]] for first in (128, 16))

RULE = Rewrite(
    code="RED217",
    name="promotion-interval",
    claim=Change.ROUNDING,
    prose=__doc__,
    graph="""
        x: e4m3fn[M, K]
        w: e4m3fn[N, K]
        y: f32 = matmul(x, transpose(w)) acc f32 fused(32, hopper)
        p: f32 = matmul(x, transpose(w)) acc f32 promote(128, f32, inner=fused(32, hopper))
        s: f32 = matmul(x, transpose(w)) acc f32 seq
    """,
    at=("y",),
    sizes={"M": 1, "K": 64, "N": 1},
    rewrite=rewrite,
    parameters=(
        Parameter("every", "length", "terms between two promotions", 128, axis=sum_length),
        Parameter("format", "format", "the format of the wide accumulator", "f32"),
    ),
    examples=(
        breaks(
            {"every": 32}, x=LARGE, w=LARGE, shows="y: 0x46800000 -> 0x46800200"
        ),  # 2^14 + 1: a bit more than the unit keeps
        breaks({"every": 32}, at=("p",), x=LARGE, w=LARGE),
        breaks({"every": 32, "format": "bf16"}, x=SMALL, w=SMALL),  # 2^8 + 1 is no bf16
        holds({"every": 32}, x=SMALL, w=SMALL),
        holds({"every": 64}, x=LARGE, w=LARGE),  # once, at the end
        rejects(NEED, {"every": 32}, at=("s",), x=1, w=1),
    ),
    loses=("domain",),
    title=lambda site: (
        f"what the matrix unit has added for `{site.name}` moves to {site.text('format')} "
        f"every {site.integer('every')} terms"
    ),
)
