"""FUS102 drop-rounding: an intermediate value is passed on without its rounding.

Why it matters: a fused kernel keeps the value in a wide register, and the rounding that its store
performed disappears. The result is often nearer the exact one, and it is another result: (x + y) +
x in bf16 changes in 18 of 100 elements.
Legal: as a change of rounding, if nothing behind the value is discontinuous: a comparison, a top-k,
a rounding to a grid or an integer turns a last digit into a whole step.
Error: one rounding less, relative error at most u of the dropped format (2^-8 of bf16).
Source: Higham, Accuracy and Stability of Numerical Algorithms, 2nd ed., sec. 2.2 (the model of a
rounding); pytorch#195214 and pytorch#168126.
See also: FUS106 for the rounding of a sum; FUS116 for another format in its place; QNT307 in front
of a grid.
"""

from lastbit.change import Change
from lastbit.patterns import NO_GRID, NO_RESULT, outer_rounding, unrounded
from lastbit.rule import Edits, Rewrite, Site, breaks, holds, rejects


def rewrite(site: Site) -> Edits:
    """Take the rounding off; readers read the real number."""
    return {site.name: unrounded(site.node)}


RULE = Rewrite(
    code="FUS102",
    name="drop-rounding",
    claim=Change.ROUNDING,
    prose=__doc__,
    graph="""
        g: bf16[N]
        u: bf16[N]
        t: bf16 = silu(g)
        z: bf16 = t * u
        q: e4m3fn = u / 2 saturate
        r: bf16 = q * g
        p: bf16 = g * u
        o: bf16 = p * '0x1p-80'
    """,
    at=("t",),
    sizes={"N": 1},
    rewrite=rewrite,
    requires=(NO_GRID, NO_RESULT),
    examples=(
        breaks(
            g=0.75, u=1.5, shows="z: 0x3f43 -> 0x3f44"
        ),  # silu(0.75) lies 0.4 ulp above its rounding
        breaks(g="0x1p+100", u="0x1p+100", at=("p",)),  # 2^120 in place of inf
        holds(g=0.75, u=2),  # a power of two scales t and its rounding alike
        rejects("the value is rounded to a format that is no grid", g=1, u=1, at=("q",)),
        rejects("the value is no result of the program", g=1, u=1, at=("z",)),
    ),
    loses=("domain",),
    title=lambda site: (
        f"`{site.name}` is no longer rounded to {outer_rounding(site.node).rounding.format.short}"
    ),
)
