"""CVT407 multiply-by-exact-reciprocal: x / c becomes x * (1/c) where 1/c is exact.

Why it matters: a product is many times faster than a division, so compilers replace one by the
other wherever they may without being told: where the reciprocal of the constant is a number of the
format. That is so for powers of two in range. For any other divisor it is reciprocal-multiply
(FUS108), and codes flip.
Legal: always, for powers of two whose reciprocal the format holds.
Error: exact: both are one rounding of the same real number.
Source: IEEE 754-2019, clause 4.3; Brisebarre, Muller and Raina, "Accelerating correctly rounded
floating-point division when the divisor is known in advance" (IEEE Trans. Comput. 53(8), 2004).
See also: FUS108 for other divisors; QNT310 for a scale.
"""

from fractions import Fraction

from lastbit.change import Change
from lastbit.formats import identical
from lastbit.graph import Const, Map, Round, apply, const
from lastbit.patterns import find, is_map, only, replace
from lastbit.rounding import Rounding, round_exact
from lastbit.rule import Edits, Parameter, Require, Rewrite, Site, holds, rejects

NEED = "the value is divided by one constant"
EXACT = "the format holds the reciprocal"


def _division(site: Site) -> tuple[Map, Fraction]:
    def divides(node: Map) -> bool:
        return is_map(node, "div") and isinstance(node.xs[1], Const)

    ratio = only(find(site.node, Map, divides), NEED)
    divisor = ratio.xs[1]
    assert isinstance(divisor, Const)
    return ratio, divisor.value if isinstance(divisor.value, Fraction) else Fraction(0)


def rewrite(site: Site) -> Edits:
    """Multiply by the reciprocal, rounded to `format`."""
    ratio, _ = _division(site)
    reciprocal = Round(apply("div", const(1), ratio.xs[1]), Rounding.of(site.text("format")))
    return {site.name: replace(site.node, ratio, apply("mul", ratio.xs[0], reciprocal))}


def _exact(site: Site) -> bool:
    _, divisor = _division(site)
    rounding = Rounding.of(site.text("format"))
    return divisor != 0 and identical(round_exact(1 / divisor, rounding), 1 / divisor)


RULE = Rewrite(
    code="CVT407",
    name="multiply-by-exact-reciprocal",
    claim=Change.BITWISE,
    prose=__doc__,
    graph="""
        x: f32[N]
        y: f32 = x / 8
        t: f32 = x / 3
        h: f32 = x / 1048576
        z: f32 = x * 8
    """,
    at=("y",),
    sizes={"N": 1},
    rewrite=rewrite,
    parameters=(Parameter("format", "format", "the format of the reciprocal", "f32"),),
    requires=(
        Require(EXACT, _exact, lambda site: f"c={_division(site)[1]}, {site.text('format')}"),
    ),
    examples=(
        holds(x="0x1.555556p-1"),
        holds({"format": "bf16"}, x=3, at=("h",)),
        rejects(EXACT, x=5, at=("t",)),
        rejects(EXACT, {"format": "e4m3fn"}, x=5, at=("h",)),  # 2^-20 is too small for it
        rejects(NEED, x=1, at=("z",)),
    ),
    title=lambda site: f"`{site.name}` multiplies by an exact reciprocal instead of dividing",
)
