"""RED272 cancelling-variance: a variance is a mean square less a squared mean.

Why it matters: two large numbers cancel. Where the mean is 2^12 times the standard deviation, no
digit of binary32 is left, and the difference may be negative, which the next root turns into NaN:
40000, 40001, 40002 and 40003 have the variance 1.25, and the difference is -128. A second pass over
the deviations, or Welford's update, is right always. Where nothing is rounded before the difference
there is no hazard.
Legal: where the mean is small against the spread: mean^2 <= 2^(p/2) times the variance.
Error: about K u (1 + mean^2 / variance) relative, against K u for two passes.
Source: Chan, Golub and LeVeque, "Algorithms for Computing the Sample Variance" (The American
Statistician 37(3), 1983); onnxruntime#28463 and tt-metal#45968.
See also: RED214, which makes such a variance.
"""

from collections.abc import Iterator

from lastbit.change import Change
from lastbit.rule import Danger, Edits, Rewrite, Site, Standing, breaks, holds, rejects
from lastbit.unsafe import values
from lastbit.unsafe.sums import NO_VARIANCE, one_pass, two_passes

MESSAGE = (
    "a mean square less a squared mean has no digits left where the mean is large against the "
    "spread, and may be negative, of which a root is NaN"
)


def finds(standing: Standing) -> Iterator[Danger]:
    """Yield the variances that are differences of rounded means."""
    for name, _ in values(standing.program):
        if one_pass(standing.program, name) is not None:
            yield Danger((name,), MESSAGE)


def rewrite(site: Site) -> Edits:
    """Average the squares of the deviations instead."""
    return two_passes(site)


RULE = Rewrite(
    code="RED272",
    name="cancelling-variance",
    claim=Change.ROUNDING,
    loses=("domain",),
    prose=__doc__,
    graph="""
        x: f32[K]
        mu: f32 = mean(x) acc f32 seq
        xx: f32 = x * x
        sq: f32 = mean(xx) acc f32 seq
        mm: f32 = mu * mu
        v: f32 = sq - mm
        r: f32 = rsqrt(v)
        e: f32 = mean(x * x) - mean(x) * mean(x)      # exact up to the end
        d: f32 = x - mu
        w: f32 = mean(d * d) acc f32 seq
        y: f32 = sq - mu
        return v, r, e, w, y
    """,
    at=("v",),
    sizes={"K": 4},
    rewrite=rewrite,
    finds=finds,
    examples=(
        breaks(
            x=(40000, 40001, 40002, 40003), shows="v: 0xc3000000 -> 0x3fa00000"
        ),  # 1.25 in place of -128; NaN in r
        breaks(x=(1001, 1002, 1003, 1005.5)),  # the squares sum beyond 2^21
        holds(x=(1, 3, 5, 7)),  # every step is exact
        rejects(NO_VARIANCE, at=("y",), x=1),
    ),
    title=lambda site: f"`{site.name}` is the mean of the squared deviations",
)
