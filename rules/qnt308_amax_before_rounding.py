"""QNT308 amax-before-rounding: the maximum is taken before the rounding of what it measures.

Why it matters: a kernel that computes a row and its maximum together holds both in binary32; the
unfused program took the maximum of the values that it had stored in bf16. The scale then differs by
up to half an ulp of bf16, and with it the quotient of every element.
Legal: as a change of rounding of the scale, where no other program has to give the same codes.
Error: u of the format in the scale (2^-8 of bf16), and a code where a quotient crosses a midpoint.
Source: TransformerEngine#2355 (a fused normalization took the maximum of binary32 values).
See also: QNT352, which finds such scales; QNT307, where the value skips the rounding.
"""

from lastbit.change import Change
from lastbit.patterns import replace, unrounded
from lastbit.patterns.quantized import NO_MAXIMUM, quantized_at, rounded_input
from lastbit.rule import Edits, Rewrite, Site, breaks, holds, rejects


def rewrite(site: Site) -> Edits:
    """Take the maximum of what the values were before their rounding."""
    found = quantized_at(site)
    leaf = rounded_input(site, found.amax)
    before = unrounded(site.definition(leaf.name))
    return found.rescaled(found.scaled_by(replace(found.amax, leaf, before)))


RULE = Rewrite(
    code="QNT308",
    name="amax-before-rounding",
    claim=Change.ROUNDING,
    prose=__doc__,
    graph="""
        x: f32[M, K]
        t: bf16 = x
        s: f32 = amax(t, axis=-1) / 448
        q: e4m3fn = t / s saturate
        y: f32 = q * s
        d: e4m3fn = t / 2 saturate
    """,
    at=("q",),
    sizes={"M": 1, "K": 1},
    rewrite=rewrite,
    examples=(
        breaks(
            x=[["0x1.01p+0"]], shows="y: 0x3f800000 -> 0x3f808000"
        ),  # 1 + 2**-8, a tie, is 1 in bf16
        holds(x=[[3]]),  # a bf16
        rejects(NO_MAXIMUM, at=("d",), x=[[3]]),
    ),
    loses=("domain",),
    title=lambda site: (
        f"the scale of `{quantized_at(site).name}` comes from values that were never rounded"
    ),
)
