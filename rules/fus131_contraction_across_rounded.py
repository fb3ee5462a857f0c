"""FUS131 contraction-across-rounded: a product is subtracted from its own rounding.

Why it matters: m = x * s; exp(m - x * s) is 1 as written, for both sides are one number. A compiler
that contracts a side into a fused multiply-subtract leaves that side exact and the other rounded:
what remains is the rounding error of the product, unbounded for large x. For x = 1134139801600 and
s = 0.18033688 it is 7916, so the line is 1, infinity or 0: uncontracted, contracted on the left, or
on the right. The subtraction of a maximum in a softmax has this form.
Legal: where the product is exact, and where both sides are contracted alike.
Error: the exponential of up to half an ulp of the product.
Source: pytorch#122260 (a fused softmax); Higham, Accuracy and Stability of Numerical Algorithms,
2nd ed., sec. 2.6.
See also: FUS107 for contraction in general.
"""

from collections.abc import Iterator

from lastbit.change import Change
from lastbit.rule import Danger, Edits, Rewrite, Site, Standing, breaks, holds, rejects
from lastbit.unsafe.products import NO_PAIR, half_rounded, rounded_alike


def finds(standing: Standing) -> Iterator[Danger]:
    """Yield the differences of a product and its rounding."""
    found = {shift.holder: rounding for shift, _, rounding in half_rounded(standing.program)}
    for name, rounding in found.items():
        fmt = rounding.format
        yield Danger(
            (name,),
            f"one side of its difference is a product rounded to {fmt.short}, the other the same "
            f"product, exact: beyond 2^{fmt.precision} they lie 1 and more apart",
        )


def rewrite(site: Site) -> Edits:
    """Round both sides."""
    return rounded_alike(site)


RULE = Rewrite(
    code="FUS131",
    name="contraction-across-rounded",
    claim=Change.ROUNDING,
    loses=("domain",),
    prose=__doc__,
    graph="""
        x: f32[N]
        s: f32[1]
        m: f32 = x * s
        l: f32 = exp(x * s - m)                        # contracted on the left
        r: f32 = exp(m - x * s)                        # on the right
        t: f32 = max(m)
        p: f32 = exp(x * s - t)
        a: f32 = exp(m - round(x * s, f32))            # as written
        b: f32 = exp(m - t)
        k: f32 = x * 2
        d: f32 = exp(k - x * 2)                        # exact
    """,
    at=("l", "r", "p"),
    sizes={"N": 1},
    rewrite=rewrite,
    finds=finds,
    examples=(
        breaks(
            at=("l",),
            x=1134139801600,
            s="0x1.7154760000000p-3",
            shows="l: 0x7f800000 -> 0x3f800000",
        ),  # 1 in place of infinity
        breaks(at=("r",), x=1134139801600, s="0x1.7154760000000p-3"),  # 1 in place of 0
        breaks(at=("p",), x=1134139801600, s="0x1.7154760000000p-3"),
        breaks(at=("l",), x="0x1.8p+10", s="0x1.000002p+0"),
        holds(at=("l",), x=3, s=0.5),  # an exact product
        rejects(NO_PAIR, at=("a",), x=3, s=0.5),
    ),
    title=lambda site: f"`{site.name}` rounds the product on both sides",
)
