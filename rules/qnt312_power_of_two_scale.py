"""QNT312 power-of-two-scale: the scale is rounded to a power of two (e8m0).

Why it matters: block-scaled matrix units take scales as e8m0, one byte that holds an exponent, and
kernels differ in how they get there. `up` never saturates and leaves up to a bit of the grid
unused. `nearest` saturates what lies beyond 448 scales: of a maximum of 630 in e4m3fn it keeps 448
(a loss of 28.9 %) where `up` gives 640; of 500 it loses 10.4 %, of 449 0.22 %. `floor`, the rule of
the MX specification, is the largest power of two in the maximum over the largest one in the grid:
it loses 10.4 % of 500 too, and saturates neither 440 nor 630. (A fourth rule rounds the exponent to
nearest: like `nearest`, with its limit at 1.414 in place of 1.5.)
Legal: where both sides state the rule by which the scale is rounded; `nearest` and `floor` need a
saturating conversion.
Error: half an ulp of the grid at a scale of 1 to 2 times the row's (`up`), of 2/3 to 4/3 of it
(`nearest`), or of 7/8 to 7/4 of it (`floor`, e4m3fn); what is above 448 scales is lost.
Source: OCP Microscaling Formats (MX) 1.0, section 6.3; mlx#4353, aiter#3212, vllm#40650.
See also: QNT353, which finds scales that clip; QNT335 for scales in e4m3.
"""

from lastbit.change import Change
from lastbit.graph import Round, apply
from lastbit.patterns import unrounded
from lastbit.patterns.quantized import NO_MAXIMUM, ROW_SCALED, grid_at, quantized_at
from lastbit.rounding import Rounding
from lastbit.rule import Edits, Parameter, Rewrite, Site, breaks, holds, rejects

MODES = {"up": "rup", "nearest": "rne", "floor": "rdn"}


def rewrite(site: Site) -> Edits:
    """Round the scale to e8m0."""
    found, mode = quantized_at(site), site.text("mode")
    scale = unrounded(found.formula)
    if mode == "floor":  # amax / 2^emax in place of amax / largest
        fmt = found.node.rounding.format
        scale = apply("mul", scale, fmt.max_finite / 2**fmt.emax)
    return found.rescaled(Round(scale, Rounding.of("e8m0", mode=MODES[mode])))


RULE = Rewrite(
    code="QNT312",
    name="power-of-two-scale",
    claim=Change.GRID,
    prose=__doc__,
    graph=ROW_SCALED + "\nd: e4m3fn = t / 2 saturate\n",
    at=("q",),
    sizes={"M": 1, "K": 2, "N": 1},
    rewrite=rewrite,
    parameters=(Parameter("mode", "choice", "`up`, `nearest` or `floor`", "up", tuple(MODES)),),
    examples=(
        breaks(t=[[1, 10]], w=[[1], [0]], shows="y: 0x3f7b -> 0x3f80"),  # 1 in place of 55/56
        breaks({"mode": "nearest"}, t=[[500, 0]], w=[[1], [0]]),  # 448: the 500 saturates
        breaks({"mode": "floor"}, t=[[500, 0]], w=[[1], [0]]),  # 448
        holds(t=[[1, 7]], w=[[1], [1]]),  # 7/448 = 2**-6
        holds({"mode": "floor"}, t=[[1, 448]], w=[[1], [1]]),
        rejects(NO_MAXIMUM, at=("d",), t=[[1, 10]], w=[[1], [0]]),
    ),
    title=lambda site: (
        f"the scale of `{grid_at(site).name}` is rounded to a power of two ({site.text('mode')})"
    ),
    loses=("domain",),
)
