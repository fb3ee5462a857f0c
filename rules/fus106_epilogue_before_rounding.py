"""FUS106 epilogue-before-rounding: what follows a sum reads the accumulator before it is rounded.

Why it matters: the epilogue has the accumulator in a register and skips the rounding of the store
between the two kernels. An element near a midpoint of the narrow format changes.
Legal: as a change of rounding, as for any rounding that is dropped (FUS102).
Error: one rounding less, relative error at most u of the dropped format (2^-8 of bf16).
Source: Higham, Accuracy and Stability of Numerical Algorithms, 2nd ed., sec. 2.2; pytorch#181918,
which truncates the accumulator in the epilogue for this reason.
See also: FUS103 with the rounding; FUS102 for values that are no sums.
"""

from lastbit.change import Change
from lastbit.patterns import NO_GRID, inlined, outer_rounding, sum_of, unrounded
from lastbit.rule import Edits, Rewrite, Site, breaks, holds, rejects


def rewrite(site: Site) -> Edits:
    """Write the sum without its last rounding into each value that reads it."""
    sum_of(site)
    return inlined(site, site.name, unrounded(site.node))


RULE = Rewrite(
    code="FUS106",
    name="epilogue-before-rounding",
    claim=Change.ROUNDING,
    prose=__doc__,
    graph="""
        a: bf16[M, K]
        w: bf16[K, N]
        c: bf16 = matmul(a, w) acc f32 seq
        y: bf16 = silu(c)
        q: e4m3fn = matmul(a, w) acc f32 seq saturate
        z: bf16 = silu(q)
        s: f32 = matmul(a, w) acc f32 seq
        r: bf16 = silu(s)
    """,
    at=("c",),
    sizes={"M": 1, "K": 2, "N": 1},
    rewrite=rewrite,
    requires=(NO_GRID,),
    examples=(
        breaks(
            a=(1, "0x1p-9"), w=1, shows="y: 0x3f3b -> 0x3f3c"
        ),  # the sum lies a quarter ulp of bf16 above 1
        holds(a=(1, "0x1p-7"), w=1),  # the sum is a bf16 value
        rejects("the value is rounded to a format that is no grid", a=1, w=1, at=("q",)),
        rejects("the value is rounded", a=1, w=1, at=("s",)),
        rejects("the value holds one sum", a=1, w=1, at=("y",)),
    ),
    loses=("domain",),
    title=lambda site: (
        f"the accumulator of `{site.name}` is read before it is rounded to "
        f"{outer_rounding(site.node).rounding.format.short}"
    ),
)
