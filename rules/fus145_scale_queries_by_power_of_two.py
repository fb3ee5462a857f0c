"""FUS145 scale-queries-by-power-of-two: a power of two is moved from a product to its left operand.

Why it matters: 1 / sqrt(d) is a power of two for d = 64 or 256, and not for d = 128. A power of two
scales every product, every partial sum and every rounding alike, so the scores keep their bits. A
kernel that was written for d = 64 and is copied to d = 128 does another thing there (FUS144).
Legal: for powers of two, where the scaled operand stays in the normal range.
Error: exact, as long as nothing overflows or falls below the smallest normal number.
Source: IEEE 754-2019, clause 5.3.3 (scaleB: a power of the base only moves the exponent);
pytorch#115151.
"""

from fractions import Fraction

from lastbit.change import Change
from lastbit.graph import Const
from lastbit.patterns.products import NO_SCALE, scaled_product
from lastbit.rule import Edits, Require, Rewrite, Site, breaks, holds, rejects

POWER = "the scale is a power of two"


def rewrite(site: Site) -> Edits:
    """Scale the left operand and round it to its own format."""
    return scaled_product(site).scaled_before()


def _is_power(site: Site) -> bool:
    factor = scaled_product(site).factor
    if not isinstance(factor, Const) or not isinstance(factor.value, Fraction):
        return False
    n, d = abs(factor.value.numerator), factor.value.denominator
    return n != 0 and n & (n - 1) == 0 and d & (d - 1) == 0


RULE = Rewrite(
    code="FUS145",
    name="scale-queries-by-power-of-two",
    claim=Change.BITWISE,
    prose=__doc__,
    graph="""
        q: bf16[M, K]
        k: bf16[N, K]
        c: f32 = matmul(q, transpose(k)) acc f32 seq
        s: f32 = c * 0.125                 # 1 / sqrt(64)
        t: f32 = c / sqrt(128)
        z: f32 = c + 1
    """,
    at=("s",),
    sizes={"M": 1, "K": 2, "N": 1},
    rewrite=rewrite,
    requires=(Require(POWER, _is_power),),
    loses=("domain",),
    examples=(
        holds(q=[[1, "0x1.02p+0"]], k=[["0x1p-20", "0x1.04p+3"]]),
        breaks(
            q=[["0x1p-133", 0]], k=[["0x1p+30", 1]], shows="s: 0x0a800000 -> 0x00000000"
        ),  # the scaled query is no bf16: 0
        rejects(POWER, q=1, k=1, at=("t",)),
        rejects(NO_SCALE, q=1, k=1, at=("z",)),
    ),
    title=lambda site: (
        f"the left operand of `{site.name}` is scaled by a power of two; the product is not "
        "scaled afterwards"
    ),
)
