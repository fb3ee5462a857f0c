"""RED211 narrow-integer-accumulator: an integer sum is accumulated in fewer bits.

Why it matters: integers add exactly, until they leave their format. One library sums int32 in 64
bits and another in 32; products of 8-bit codes need 32 bits, and instructions that add them in 16
saturate. Where the sum does not fit, the low bits stay (`wrap`) or every addition stops at the end
of the range (`saturate`), which depends on the order. Tests with short sums see neither.
Legal: where K times the largest term is below 2^(b - 1), for b bits.
Error: none in range; beyond it a multiple of 2^b (`wrap`), or all that was cut off (`saturate`).
Source: ISO/IEC 9899:2018, 6.5 (overflow of signed integers is undefined); Jacob et al., arXiv
1712.05877, section 2.2 (32-bit accumulators for products of 8 bits).
See also: RED210 for floating-point accumulators; QNT322 for a conversion that wraps.
"""

from lastbit.change import Change
from lastbit.formats import format_of
from lastbit.patterns import sum_of
from lastbit.patterns.integers import low_bits
from lastbit.rounding import Rounding
from lastbit.rule import Edits, Parameter, Require, Rewrite, Site, breaks, holds, rejects


def rewrite(site: Site) -> Edits:
    """Take the sum modulo 2^b, or let each addition saturate."""
    total, narrow = sum_of(site), format_of(site.text("format"))
    if site.text("overflow") == "saturate":
        return {site.name: total.scheduled(total.schedule, Rounding.of(narrow))}
    return {site.name: total.replaced(low_bits(total.over(total.terms), narrow))}


RULE = Rewrite(
    code="RED211",
    name="narrow-integer-accumulator",
    claim=Change.MATH,
    prose=__doc__,
    graph="""
        x: int32[K]
        y: int64 = sum(x) acc int64 seq
        h: f32 = sum(x) acc f32 seq
    """,
    at=("y",),
    sizes={"K": 3},
    rewrite=rewrite,
    parameters=(
        Parameter("format", "choice", "the format of the accumulator", "int32", ("int32", "int8")),
        Parameter("overflow", "choice", "`wrap` or `saturate`", "wrap", ("wrap", "saturate")),
    ),
    requires=(
        Require(
            "the accumulator is a wider integer",
            lambda site: (
                sum_of(site).acc.format.kind == "integer"
                and sum_of(site).acc.format.bits > format_of(site.text("format")).bits
            ),
            lambda site: f"format={site.text('format')}, acc={sum_of(site).acc.format.short}",
        ),
    ),
    examples=(
        breaks(
            x=(2**31 - 1, 1, 0), shows="y: 0x0000000080000000 -> 0xffffffff80000000"
        ),  # -2^31 in place of 2^31
        breaks({"overflow": "saturate"}, x=(2**31 - 1, 1, -1)),  # one less
        holds(x=(2**31 - 1, 1, -1)),  # what wraps comes back
        rejects("the accumulator is a wider integer", x=1, at=("h",)),
    ),
    title=lambda site: (
        f"`{site.name}` is accumulated in {site.text('format')}, where overflows "
        f"{site.text('overflow')}"
    ),
)
