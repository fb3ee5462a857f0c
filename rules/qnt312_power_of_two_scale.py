"""QNT312 power-of-two-scale: the scale is rounded to a power of two (e8m0).

Why it matters: block-scaled matrix units take scales as e8m0, one byte that holds an exponent.
Rounded up, no value saturates but up to a bit of the grid is unused; rounded to nearest, values
may saturate. Kernels differ in which of the two they do.
Error: half an ulp of the grid at a scale below 2 times the row's (up), or between 2/3 and 4/3
of it (nearest), where everything above 448 scales is lost.
Source: OCP Microscaling Formats (MX) 1.0, section 6.3; vllm#40650.
"""

from lastbit.change import Change
from lastbit.graph import Round
from lastbit.patterns import unrounded
from lastbit.quantized import NO_MAXIMUM, ROW_SCALED, grid_at, quantized_at
from lastbit.rounding import Rounding
from lastbit.rule import Edits, Parameter, Rewrite, Site, breaks, holds, rejects

MODES = {"up": "rup", "nearest": "rne"}


def rewrite(site: Site) -> Edits:
    """Round the scale to e8m0."""
    found = quantized_at(site)
    to_e8m0 = Rounding.of("e8m0", mode=MODES[site.text("mode")])
    return found.rescaled(Round(unrounded(found.formula), to_e8m0))


RULE = Rewrite(
    code="QNT312",
    name="power-of-two-scale",
    claim=Change.GRID,
    prose=__doc__,
    graph=ROW_SCALED + "\nd: e4m3fn = t / 2 saturate\n",
    at=("q",),
    sizes={"M": 1, "K": 2, "N": 1},
    rewrite=rewrite,
    parameters=(Parameter("mode", "choice", "`up` or `nearest`", "up", tuple(MODES)),),
    examples=(
        breaks(t=[[1, 10]], w=[[1], [0]]),  # 1 in place of 55/56
        breaks({"mode": "nearest"}, t=[[1, 10]], w=[[0], [1]]),  # 7: the 10 saturates
        holds(t=[[1, 7]], w=[[1], [1]]),  # 7/448 = 2**-6
        rejects(NO_MAXIMUM, at=("d",), t=[[1, 10]], w=[[1], [0]]),
    ),
    title=lambda site: (
        f"the scale of `{grid_at(site).name}` is rounded to a power of two ({site.text('mode')})"
    ),
)
