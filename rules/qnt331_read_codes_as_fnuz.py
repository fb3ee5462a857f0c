"""QNT331 read-codes-as-fnuz: the bytes of e4m3fn are read as e4m3fnuz.

Why it matters: the two formats share their name in many files and their layout of fields, and the
exponent bias of e4m3fnuz is larger by one. Each value comes out halved, so a loader must double the
scales; where only one of two operands is corrected, outputs are off by 2. Three codes mean
something else entirely: that of -0 is the NaN of e4m3fnuz, so one -0 spoils a row, and the two NaNs
are its 240 and -240.
Legal: where the scales are doubled and codes of -0 and NaN cannot occur.
Error: a factor of 2.
Source: OCP 8-bit Floating Point Specification (OFP8) 1.0 (bias 7); Noune et al., arXiv 2206.02915
(bias 8); onnx#6220.
"""

from lastbit.change import Change
from lastbit.formats import E4M3FN, E4M3FNUZ
from lastbit.graph import Const, Round, apply, const
from lastbit.patterns.quantized import grid_at
from lastbit.rounding import Rounding
from lastbit.rule import Edits, MismatchError, Rewrite, Site, breaks, holds, rejects

NEED = "the codes are e4m3fn"


def rewrite(site: Site) -> Edits:
    """Halve the value, exactly; -0 becomes NaN, and NaN 240."""
    grid = grid_at(site)
    code = grid.node
    if code.rounding.format != E4M3FN:
        raise MismatchError(NEED)
    negative_zero = apply("equal", apply("div", 1, code), Const(float("-inf")))
    value = apply("select", negative_zero, Const(float("nan")), apply("div", code, 2))
    value = apply("select", apply("equal", code, code), value, const(E4M3FNUZ.max_finite))
    return grid.replaced(Round(value, Rounding.of(E4M3FNUZ)))


RULE = Rewrite(
    code="QNT331",
    name="read-codes-as-fnuz",
    claim=Change.MATH,
    prose=__doc__,
    graph="""
        x: bf16[N]
        q: e4m3fn = x / 2 saturate
        y: f32 = q * 2
        i: int8 = x saturate
    """,
    at=("q",),
    sizes={"N": 1},
    rewrite=rewrite,
    examples=(
        breaks(x=3, shows="y: 0x40400000 -> 0x3fc00000"),  # 1.5 in place of 3
        breaks(x=896),  # 224 is the value of the code of 448
        breaks(x=-0.0),  # NaN
        breaks(x=float("nan")),  # 240
        holds(x=0),
        rejects(NEED, at=("i",), x=1),
    ),
    loses=("domain",),
    title=lambda site: f"the codes of `{grid_at(site).name}` are read as e4m3fnuz",
)
