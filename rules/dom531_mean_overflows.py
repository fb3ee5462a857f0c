"""DOM531 mean-overflows: the sum of a mean is larger than its format holds.

Why it matters: a mean lies between its terms, and the sum in front of the division does not. In
f16, which ends at 65504, 2000 terms of 60 sum to infinity, and so their mean is infinite in place
of 60. Libraries that accumulate means of f16 in f32 have no such limit. The hazard counts where the
terms may be so large: any number of their format, unless a range is declared; for formats that
reach as far as f32 a declared range has to say so.
Legal: where a declared range keeps n times the largest term below the end of the format.
Error: every digit, where the sum overflows; else the roundings of a narrow accumulator.
Source: burn#4770 and tt-metal#55159 (means in f16).
See also: DOM517, which makes one.
"""

from collections.abc import Iterator

from lastbit.change import Change
from lastbit.rule import Danger, Edits, Rewrite, Site, Standing, breaks, holds, rejects
from lastbit.unsafe import values
from lastbit.unsafe.ranges import ranges_of
from lastbit.unsafe.sums import NO_MEAN, means, overflowing, widened


def finds(standing: Standing) -> Iterator[Danger]:
    """Yield the values that divide a sum which may overflow."""
    for name, _ in values(standing.program):
        found = [overflowing(standing, mean) for mean in means(standing.program, name)]
        for fmt, bounds in (pair for pair in found[:1] if pair is not None):
            said = ranges_of(standing).said(bounds) or " for terms as large as their format holds"
            yield Danger(
                (name,),
                f"the sum of its mean reaches {bounds.size:.3g}{said}, and {fmt.short} ends at "
                f"{float(fmt.max_finite):.6g}, so the mean is infinite",
            )


def rewrite(site: Site) -> Edits:
    """Add in a wide accumulator, and round after the division."""
    return widened(site)


RULE = Rewrite(
    code="DOM531",
    name="mean-overflows",
    claim=Change.ROUNDING,
    loses=("domain",),
    prose=__doc__,
    graph="""
        x: f16[K]
        h: f16[2]
        i: int8[K]
        m: f16 = mean(x) acc f16 seq
        s: f16 = sum(h) acc f32 seq
        n: f16 = s / 2
        w: f16 = mean(x) acc f32 seq
        e: f16 = mean(x)
        c: f16 = mean(clamp(x, -8, 8)) acc f16 seq
        j: f16 = mean(i) acc f16 seq
        t: f16 = x + 1
    """,
    at=("m", "n"),
    sizes={"K": 2},
    rewrite=rewrite,
    finds=finds,
    examples=(
        breaks(
            at=("m",), x=(60000, 60000), h=2, i=1, shows="m: 0x7c00 -> 0x7b53"
        ),  # 60000 in place of inf
        breaks(at=("n",), x=1, h=(60000, 60000), i=1),
        breaks(at=("m",), x=(1, 2, 2048), h=2, i=1),  # 2051 is none of f16
        holds(at=("m",), x=(60, 60), h=2, i=1),
        rejects(NO_MEAN, at=("t",), x=60, h=2, i=1),
    ),
    title=lambda site: f"`{site.name}` adds its terms in a wide accumulator",
)
