"""ACM101 average-halves: (x + y) / 2 becomes x / 2 + y / 2.

Why it matters: x + y overflows where both are large, though their mean does not. Halving first
avoids that, and on ordinary runs no bit changes, since halving a number is exact.
Legal: always on ordinary runs; where nothing relies on the overflow of x + y.
Error: exact on ordinary runs; a subnormal number loses its last bit where it is halved.
Source: IEEE 754-2019, clause 7.4 (overflow) and 7.5 (underflow).
"""

from lastbit.change import Change
from lastbit.graph import Const, Map, Node, Round, apply
from lastbit.patterns import is_map, outer_rounding, replace, written_out
from lastbit.rule import Edits, MismatchError, Require, Rewrite, Site, breaks, holds, rejects

NEED = "the value divides a rounded sum by a number"


def parts(site: Site) -> tuple[Round, Map, Const]:
    """Return the rounding in which the value ends, the sum that it divides, and the divisor.

    Raises:
        MismatchError: the value has another form.
    """
    outer = outer_rounding(site.node)
    if is_map(outer.x, "div"):
        dividend, divisor = outer.x.args
        inner = written_out(site, dividend)
        if isinstance(inner, Round) and is_map(inner.x, "add") and isinstance(divisor, Const):
            assert isinstance(inner.x, Map)
            return outer, inner.x, divisor
    raise MismatchError(NEED)


def rewrite(site: Site) -> Edits:
    """Divide the terms, each with a rounding of its own, and add them."""
    outer, total, divisor = parts(site)
    terms: list[Node] = [Round(apply("div", x, divisor), outer.rounding) for x in total.xs]
    halves = Round(apply("add", *terms), outer.rounding)
    return {site.name: replace(site.node, outer, halves)}


RULE = Rewrite(
    code="ACM101",
    name="average-halves",
    claim=Change.BITWISE,
    prose=__doc__,
    graph="""
        x: f32[N]
        y: f32[N]
        s: f32 = x + y
        a: f32 = s / 2
        b: f32 = s / 3
        z: f32 = x - y
    """,
    at=("a",),
    sizes={"N": 1},
    rewrite=rewrite,
    requires=(
        Require(
            "the divisor is 2",
            lambda site: parts(site)[2].value == 2,
            lambda site: f"divisor={parts(site)[2].value}",
        ),
    ),
    examples=(
        holds(x=1, y="0x1.000002p+0"),  # the sum has one digit too many, and ties
        breaks(x="0x1.fffffep+127", y="0x1.fffffep+127"),  # no overflow
        rejects("the divisor is 2", x=1, y=1, at=("b",)),
        rejects(NEED, x=1, y=1, at=("z",)),
    ),
    loses=("domain",),
    title=lambda site: f"`{site.name}` halves its terms before it adds them",
)
