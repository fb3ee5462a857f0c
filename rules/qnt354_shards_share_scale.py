"""QNT354 shards-share-scale: parts of very different size are quantized by one scale.

Why it matters: merged projections (QKV, gate and up) are quantized by one scale for the tensor,
that of their largest part. In a floating-point format that is harmless up to a point, for a part a
hundred times smaller keeps its digits. A part is lost where the root mean square of its elements,
divided by the scale, lies below the smallest normal number: most quotients are then subnormal. For
e4m3fn that is 2^-6, so for normal parts, whose largest of millions is 6 standard deviations, the
ratio of the parts is 2^-6 * 6 / 448 = 2e-4. Relative errors of 0.027 become 0.049 at a ratio of
1e-4, 0.49 at 1e-5, and at 1e-6 all is 0. It counts where the plan declares how large the parts are.
Legal: where every part keeps most of its elements above the smallest normal number of the grid.
Error: u of the grid relative to each element; of a lost part, half its least step times the scale.
Source: vllm#41022 and vllm#5915 (merged shards with one scale).
See also: QNT320, which merges the scales.
"""

from collections.abc import Iterator

from lastbit.change import Change
from lastbit.rule import Danger, Edits, Rewrite, Site, Standing, breaks, holds, rejects
from lastbit.unsafe import called, quantizations
from lastbit.unsafe.shards import NO_SHARED, lost_part, own_scales, shared


def finds(standing: Standing) -> Iterator[Danger]:
    """Yield the quantizations that leave a part below the smallest normal number."""
    for whole in quantizations(standing.program):
        found = shared(standing.program, whole)
        lost = None if found is None else lost_part(standing, found)
        if lost is not None:
            part, fmt = called(lost.part, "one part"), whole.node.rounding.format
            yield Danger(
                (whole.name,),
                f"the elements of {part} are about {lost.rms:.2g} and its scale, that of the "
                f"largest part, is {lost.scale:.2g}{lost.said}, so most are subnormal in "
                f"{fmt.short}",
            )


def rewrite(site: Site) -> Edits:
    """Give each part a scale of its own."""
    return own_scales(site)


RULE = Rewrite(
    code="QNT354",
    name="shards-share-scale",
    claim=Change.GRID,
    loses=("domain",),
    prose=__doc__,
    graph="""
        a: f32[K, N]
        b: f32[K, N]
        c: bf16 = clamp(a, -1, 1)
        d: bf16 = clamp(b, -1e-5, 1e-5)
        w: bf16 = concat(c, d, axis=1)
        s: f32 = amax(amax(w, axis=0), axis=1) / 448     # one scale for both
        q: e4m3fn = w / s saturate
        y: f32 = q * s
        t: f32 = amax(w, axis=0) / 448                   # one for each column
        p: e4m3fn = w / t saturate
        e: bf16 = clamp(b, -1e-2, 1e-2)
        v: bf16 = concat(c, e, axis=1)
        u: f32 = amax(amax(v, axis=0), axis=1) / 448
        r: e4m3fn = v / u saturate
        z: f32 = r * u
    """,
    at=("q",),
    sizes={"K": 1, "N": 1},
    rewrite=rewrite,
    finds=finds,
    examples=(
        breaks(
            at=("q",), a=[[1]], b=[["0x1p-17"]], shows="y[0, 1]: 0x37124925 -> 0x37000000"
        ),  # 2^-17 in place of 0
        breaks(at=("q",), a=[["0x1p-14"]], b=[["0x1.2p-17"]]),  # 63 lies between two codes
        holds(at=("q",), a=[["0x1p-17"]], b=[["0x1p-17"]]),  # the same scale
        rejects(NO_SHARED, at=("p",), a=[[1]], b=[[1]]),
    ),
    title=lambda site: f"each part of `{site.name}` has a scale of its own",
)
