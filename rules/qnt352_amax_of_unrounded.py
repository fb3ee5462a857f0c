"""QNT352 amax-of-unrounded: a scale comes from values before the rounding that is quantized.

Why it matters: a fused normalization takes the maximum of the binary32 values that it holds, and
quantizes the bf16 values that it stores. Of 3.0117188 the maximum is 3.01171875, and what is stored
is 3.015625: the largest quotient is 448.58 in place of 448. That alone overflows nothing, 448.58
rounds to 448, but the scale has other bits than that of a program which reads what was stored, and
with it every quotient.
Legal: where no other program has to give the same codes.
Error: a relative error of u in the scale (2^-8 of bf16), and a code where a quotient crosses a
midpoint.
Source: TransformerEngine#2355 (the maximum of a fused normalization).
See also: QNT308, which makes such a scale.
"""

from collections.abc import Iterator

from lastbit.change import Change
from lastbit.rule import Danger, Edits, Rewrite, Site, Standing, breaks, holds, rejects
from lastbit.unsafe import called, headroom, quantizations
from lastbit.unsafe.scales import NO_LATER, measured_after, measured_before


def finds(standing: Standing) -> Iterator[Danger]:
    """Yield the quantizations whose scale comes from values before their rounding."""
    for whole in quantizations(standing.program):
        later = measured_before(standing.program, whole)
        if later is not None:
            grid, fmt = whole.node.rounding, later.rounding.format
            most = float(grid.format.max_finite) * (1 + 2.0**-fmt.precision)
            fits = most <= float(grid.format.max_finite) * headroom(grid)
            yield Danger(
                (whole.name,),
                f"the maximum is taken before {called(whole.numerator, 'what is quantized')} is "
                f"rounded to {fmt.short}: the scale is up to 2^-{fmt.precision} too small, and the "
                f"largest quotient {most:.6g}, which "
                f"{'does not overflow' if fits else f'overflows {grid.format.short}'}",
            )


def rewrite(site: Site) -> Edits:
    """Take the maximum of the rounded values."""
    return measured_after(site)


RULE = Rewrite(
    code="QNT352",
    name="amax-of-unrounded",
    claim=Change.ROUNDING,
    loses=("domain",),
    prose=__doc__,
    graph="""
        x: f32[M, K]
        t: bf16 = x
        s: f32 = amax(x, axis=-1) / 448
        q: e4m3fn = t / s saturate
        y: f32 = q * s
        a: f32 = amax(t, axis=-1) / 448
        p: e4m3fn = t / a saturate
        z: f32 = p * a
        r: e4m3fn = x / s saturate
        w: f32 = r * s
    """,
    at=("q",),
    sizes={"M": 1, "K": 1},
    rewrite=rewrite,
    finds=finds,
    examples=(
        breaks(
            x=[["0x1.818p+1"]], shows="y: 0x4040c000 -> 0x40410000"
        ),  # 3.01171875, which is 3.015625 in bf16
        holds(x=[[3]]),  # a bf16
        rejects(NO_LATER, at=("p",), x=[[3]]),
    ),
    title=lambda site: f"the scale of `{site.name}` comes from the rounded values",
)
