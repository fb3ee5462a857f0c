"""QNT353 scale-rounding-clips: a scale is rounded to a power of two below what its maximum needs.

Why it matters: a scale in e8m0 that is not rounded up may be smaller than amax / 448, and the
largest elements of the block saturate. To the nearest, a maximum of 630 gets the scale 1 and is
stored as 448: 28.9 % are gone. 2^floor(log2 amax) / 2^8, the rule of the MX specification, loses up
to 12.5 %: 500 is 448 then, 10.4 % less. Rounded up no element is lost, at the price of up to one
bit of the grid. Scales of more digits lose less than half a step of the grid, which is no hazard.
Legal: where the specification of the format asks for it, and both sides follow it.
Error: up to 1/3 of the largest elements (nearest), 1/2 (down); rounded up, half a step of the grid.
Source: mlx#4353 and aiter#3212 (clipped maxima); OCP Microscaling Formats (MX) 1.0, section 6.3.
See also: QNT312 for the rules by which scales are rounded.
"""

from collections.abc import Iterator

from lastbit.change import Change
from lastbit.rule import Danger, Edits, Rewrite, Site, Standing, breaks, holds, rejects
from lastbit.unsafe import called, quantizations
from lastbit.unsafe.scales import NO_CLIPPING, clipping, with_scale_rounded_up


def finds(standing: Standing) -> Iterator[Danger]:
    """Yield the quantizations whose largest elements may saturate."""
    for whole in quantizations(standing.program):
        found = clipping(whole)
        if found is not None:
            scale, fmt = called(whole.scale, "the scale"), whole.node.rounding.format
            yield Danger(
                (whole.name,),
                f"{scale} is rounded {found.how}, so the largest elements may lie beyond "
                f"{float(fmt.max_finite):g} scales, and lose up to {100 * found.lost:.3g} %",
            )


def rewrite(site: Site) -> Edits:
    """Round the scale up."""
    return with_scale_rounded_up(site)


RULE = Rewrite(
    code="QNT353",
    name="scale-rounding-clips",
    claim=Change.MATH,
    loses=("domain",),
    prose=__doc__,
    graph="""
        x: f32[M, K]
        s: e8m0 = amax(x, axis=-1) / 448
        q: e4m3fn = x / s saturate
        y: f32 = q * s
        o: f32 = exp2(floor(log2(amax(x, axis=-1))) - 8)
        p: e4m3fn = x / o saturate
        v: f32 = p * o
        u: e8m0 = amax(x, axis=-1) / 448 rup
        c: e4m3fn = x / u saturate
        w: f32 = c * u
        f: bf16 = amax(x, axis=-1) / 448
        b: e4m3fn = x / f saturate
        z: f32 = b * f
    """,
    at=("q", "p"),
    sizes={"M": 1, "K": 1},
    rewrite=rewrite,
    finds=finds,
    examples=(
        breaks(at=("q",), x=[[630]], shows="y: 0x43e00000 -> 0x44200000"),  # 640 in place of 448
        breaks(at=("p",), x=[[500]]),  # 512 in place of 448
        holds(at=("q",), x=[[448]]),  # a scale of 1
        rejects(NO_CLIPPING, at=("c",), x=[[448]]),
    ),
    title=lambda site: f"the scale of `{site.name}` is rounded up",
)
