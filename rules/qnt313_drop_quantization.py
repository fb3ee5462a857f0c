"""QNT313 drop-quantization: a value is no longer rounded to its grid.

Why it matters: a fused kernel that keeps the quotient in registers, or a simulation that leaves the
cast out, computes with values that the deployed program never sees. It is nearer to the exact
result and still wrong as a reference.
Legal: where the reference is not meant to be what is deployed.
Error: half an ulp of the grid in each element disappears.
Source: Jacob et al., arXiv 1712.05877, section 3 (simulated quantization must round where the
deployed program does).
See also: CVT401 for formats that are no grids.
"""

from lastbit.change import Change
from lastbit.patterns.quantized import NO_GRID, ROW_SCALED, grid_at
from lastbit.rule import Edits, Rewrite, Site, breaks, holds, rejects


def rewrite(site: Site) -> Edits:
    """Leave the rounding out."""
    grid = grid_at(site)
    return grid.replaced(grid.node.x)


RULE = Rewrite(
    code="QNT313",
    name="drop-quantization",
    claim=Change.GRID,
    prose=__doc__,
    graph=ROW_SCALED
    + """
        r: f32 = t * 2
        d: e4m3fn = t / 2 saturate         # a fixed scale
        z: f32 = d * 2
    """,
    at=("q",),
    sizes={"M": 1, "K": 2, "N": 1},
    rewrite=rewrite,
    examples=(
        breaks(t=[[1, 10]], w=[[1], [0]], shows="y: 0x3f7b -> 0x3f80"),  # 1 in place of 55/56
        breaks(t=float("inf"), w=1, at=("d",)),  # inf in place of 896
        holds(t=[[1, 7]], w=[[1], [0]]),  # 64 is on the grid
        rejects(NO_GRID, at=("r",), t=[[1, 10]], w=[[1], [0]]),
    ),
    loses=("domain",),
    title=lambda site: f"`{grid_at(site).name}` is no longer rounded to its grid",
)
