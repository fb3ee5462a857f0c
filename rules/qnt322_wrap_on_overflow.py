"""QNT322 wrap-on-overflow: a conversion to integers keeps the low bits instead of saturating.

Why it matters: a cast to int8 saturates in one library and keeps the low eight bits of a wider
integer in another: 128 becomes 127 here and -128 there. With scales from amax no code is out of
range and tests pass; a scale from calibration, or a zero point, lets an outlier change its sign.
Legal: where the range is known to be kept.
Error: none in range; beyond it a multiple of 2^8.
Source: ISO/IEC 9899:2018, 6.3.1.4 (a float outside the integer's range: undefined) and 6.3.1.3;
Jacob et al., arXiv 1712.05877, section 2.4 (the conversion must saturate); onnxruntime#28743.
See also: RED211 for sums.
"""

from lastbit.change import Change
from lastbit.formats import INT64
from lastbit.graph import Round
from lastbit.patterns.integers import low_bits
from lastbit.patterns.quantized import NO_GRID, grid_at
from lastbit.rounding import Rounding
from lastbit.rule import Edits, MismatchError, Rewrite, Site, breaks, holds, rejects

NEED = "the grid is an integer format"


def rewrite(site: Site) -> Edits:
    """Round to a wide integer, and take it modulo 2^bits."""
    grid = grid_at(site)
    rounding = grid.node.rounding
    if rounding.format.kind != "integer":
        raise MismatchError(NEED)
    wide = Round(grid.node.x, Rounding.of(INT64, rounding.mode))
    return grid.replaced(Round(low_bits(wide, rounding.format), rounding))


RULE = Rewrite(
    code="QNT322",
    name="wrap-on-overflow",
    claim=Change.MATH,
    prose=__doc__,
    graph="""
        x: f32[N]
        q: int8 = x / 2 saturate
        e: e4m3fn = x / 2 saturate
        n: f32 = x * 2
    """,
    at=("q",),
    sizes={"N": 1},
    rewrite=rewrite,
    examples=(
        breaks(x=256, shows="q: 0x7f -> 0x80"),  # -128 in place of 127
        breaks(x=255),  # 127.5 ties to 128
        holds(x=(254, -256)),
        rejects(NEED, at=("e",), x=1),
        rejects(NO_GRID, at=("n",), x=1),
    ),
    title=lambda site: f"`{grid_at(site).name}` keeps the low bits of what is out of range",
)
