"""QNT323 floor-amax: the floor that keeps a scale above 0 applies to the maximum, not to the scale.

Why it matters: both guards save a row of zeros from 0 / 0, and they differ in all rows with a
maximum between the floor and 448 times the floor (e4m3fn). With a floor of 1e-12, a row with
maximum 1e-11 has the scale 1e-12 and the codes end at 10, or the scale 2.2e-14 and the codes end at
448. Two libraries that exchange codes must use the same guard.
Legal: where both sides state the guard, or every maximum is above 448 times the floor.
Error: in such rows, half an ulp of the grid at another scale; none in others.
Source: pytorch/ao#4713 and lmdeploy#3652 (rows of zeros, and the guards that followed).
See also: QNT351, which finds guards that are none.
"""

from fractions import Fraction

from lastbit.change import Change
from lastbit.graph import Const, Map, Node, apply
from lastbit.patterns import find, is_map, only, replace
from lastbit.patterns.quantized import NO_MAXIMUM, Quantized, grid_at, quantized_at
from lastbit.rule import Edits, Rewrite, Site, breaks, holds, rejects

NEED = "the scale has a floor"


def floored(found: Quantized) -> tuple[Map, Node, Const]:
    """Return the floored scale, the scale in it, and the floor.

    Raises:
        MismatchError: the scale has no floor.
    """

    def floors(node: Map) -> bool:
        floor = [x for x in node.xs if isinstance(x, Const) and isinstance(x.value, Fraction)]
        return is_map(node, "max") and len(floor) == 1

    node = only(find(found.formula, Map, floors), NEED)
    (floor,) = (x for x in node.xs if isinstance(x, Const))
    (scale,) = (x for x in node.xs if x is not floor)
    return node, scale, floor


def rewrite(site: Site) -> Edits:
    """Take the larger of maximum and floor, and divide that."""
    found = quantized_at(site)
    node, scale, floor = floored(found)
    new = replace(scale, found.amax, apply("max", found.amax, floor))
    return found.rescaled(replace(found.formula, node, new))


RULE = Rewrite(
    code="QNT323",
    name="floor-amax",
    claim=Change.GRID,
    prose=__doc__,
    graph="""
        t: f32[M, K]
        s: f32 = maximum(amax(t) / 448, '0x1p-10')
        q: e4m3fn = t / s saturate
        y: f32 = q * s
        r: f32 = amax(t) / 448
        c: e4m3fn = t / r saturate
        z: f32 = c * r
        d: e4m3fn = t / 2 saturate
        u: f32[M, K]                       # with a scale in f16
        h: f16 = maximum(amax(u) / 448, '0x1p-20')
        e: e4m3fn = u / h saturate
        v: f32 = e * h
    """,
    at=("q",),
    sizes={"M": 1, "K": 2},
    rewrite=rewrite,
    examples=(
        breaks(
            t=[["0x1p-4", "0x1.1p-4"]], u=1, shows="y[0, 0]: 0x3d800000 -> 0x3d7c9249"
        ),  # codes end at 448 in place of 64
        breaks(t=1, u=0, at=("e",)),  # NaN in place of 0: 2^-20 / 448 is 0 in f16
        holds(t=[[1, 10]], u=1),  # the floor is out of reach
        rejects(NEED, at=("c",), t=[[1, 10]], u=1),
        rejects(NO_MAXIMUM, at=("d",), t=[[1, 10]], u=1),
    ),
    title=lambda site: f"the floor of the scale of `{grid_at(site).name}` applies to its maximum",
    loses=("domain",),
)
