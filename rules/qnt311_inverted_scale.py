"""QNT311 inverted-scale: a quantization multiplies by its scale instead of dividing by it.

Why it matters: checkpoints and kernels hand on either the scale that restores (x = q * scale) or
its reciprocal, under the same name. With the wrong one, values are off by the square of the scale;
with scales near 1 a test may not notice.
Legal: where the scale is 1; never else.
Error: unbounded; a factor of scale^2 before the rounding.
Source: vllm#36297.
"""

from lastbit.change import Change
from lastbit.graph import apply
from lastbit.patterns import replace
from lastbit.patterns.quantized import NO_SCALE, ROW_SCALED, scaled_at
from lastbit.rule import Edits, Rewrite, Site, breaks, holds, rejects


def rewrite(site: Site) -> Edits:
    """Multiply by the scale."""
    grid, x, scale = scaled_at(site)
    return grid.replaced(replace(grid.node, grid.node.x, apply("mul", x, scale)))


RULE = Rewrite(
    code="QNT311",
    name="inverted-scale",
    claim=Change.MATH,
    prose=__doc__,
    graph=ROW_SCALED + "\nd: e4m3fn = t saturate\n",
    at=("q",),
    sizes={"M": 1, "K": 2, "N": 1},
    rewrite=rewrite,
    examples=(
        breaks(t=[[64, 100]], w=[[1], [0]], shows="y: 0x4281 -> 0x4048"),
        holds(t=[[1, 448]], w=[[1], [1]]),  # the scale is 1
        rejects(NO_SCALE, at=("d",), t=[[1, 2]], w=[[1], [0]]),
    ),
    loses=("domain",),
    title=lambda site: f"`{scaled_at(site)[0].name}` multiplies by its scale",
)
