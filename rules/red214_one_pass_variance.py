"""RED214 one-pass-variance: a variance is the mean square less the squared mean, in one pass.

Why it matters: over the reals the two are the same. Rounded, two large numbers cancel: where the
mean is large against the spread, no digit is left, and the result may be negative, which the next
square root turns into NaN.
Legal: as a change of rounding, where the mean is small against the spread: mean^2 <= 2^(p/2) times
the variance.
Error: about K u times (1 + mean^2 / variance) relative, against K u for two passes.
Source: Chan, Golub and LeVeque, "Algorithms for Computing the Sample Variance" (The American
Statistician 37(3), 1983); Higham, Accuracy and Stability of Numerical Algorithms, 2nd ed., sec.
1.9; burn#5607.
See also: RED272, which finds such variances.
"""

from lastbit.change import Change
from lastbit.definitions import reference
from lastbit.graph import Map, Node, Round, apply
from lastbit.patterns import (
    fresh,
    is_map,
    mean_in,
    past_views,
    replace,
    same_format,
    unrounded,
    written_out,
)
from lastbit.rule import Edits, MismatchError, Rewrite, Site, breaks, holds, rejects


def rewrite(site: Site) -> Edits:
    """Average the squares of the terms instead, and subtract the squared mean."""
    total, variance = mean_in(site.node)
    x, mean = _deviation(site, total.terms)
    squares = Map(variance.fn, (total.over(apply("mul", x, x)), variance.xs[1]))
    name = fresh(site, f"{site.name}_squares")
    named = Round(squares, total.acc)
    if mean.shape != squares.shape:
        raise MismatchError("the mean runs along the axis of the variance")
    spread = apply("sub", reference(name, named), apply("mul", mean, mean))
    view = replace(variance.xs[0], total.node, spread)  # the sum may be viewed
    return {name: named, site.name: same_format(site.node, replace(site.node, variance, view))}


def _deviation(site: Site, square: Node) -> tuple[Node, Node]:
    """Return x and its mean from (x - mean)^2."""
    if isinstance(square, Map) and is_map(square, "mul") and square.xs[0].key == square.xs[1].key:
        deviation = unrounded(written_out(site, square.xs[0]))
        if isinstance(deviation, Map) and is_map(deviation, "sub"):
            x, mean = deviation.xs
            averaged, _ = mean_in(written_out(site, mean))
            if past_views(averaged.terms).key == past_views(x).key:
                return x, mean
    raise MismatchError("the value is the mean of (x - mean of x)^2")


RULE = Rewrite(
    code="RED214",
    name="one-pass-variance",
    claim=Change.ROUNDING,
    prose=__doc__,
    graph="""
        x: f32[K]
        mu: f32 = mean(x) acc f32 seq
        d: f32 = x - mu
        v: f32 = mean(d * d) acc f32 seq
        r: f32 = mean(x * x) acc f32 seq
    """,
    at=("v",),
    sizes={"K": 2},
    rewrite=rewrite,
    examples=(
        breaks(
            x=(4096, 4097), shows="v: 0x3e800000 -> 0xbe800000"
        ),  # 0.25, against the difference of two rounded numbers near 2^24
        holds(x=(1, 3)),  # every step is exact
        rejects("the value is the mean of (x - mean of x)^2", x=1, at=("r",)),
    ),
    loses=("domain",),
    title=lambda site: f"`{site.name}` is the mean square less the squared mean",
)
