"""FUS110 tile-output: a result is computed tile by tile along its rows and columns.

Why it matters: a tile reuses the rows and columns that it loaded. Each element is computed as
before, by the same additions in the same order, so tile shapes may follow the machine.
Legal: always.
Error: none; the same rounded operations run on the same operands.
Source: Goto and van de Geijn, "Anatomy of High-Performance Matrix Multiplication" (ACM Trans. Math.
Softw. 34(3), 2008).
"""

from lastbit.change import Change
from lastbit.cost.placement import Placement, Tile
from lastbit.graph import concat
from lastbit.patterns import same_format
from lastbit.patterns.windows import window
from lastbit.rule import Edits, Parameter, Require, Rewrite, Site, holds, rejects


def rewrite(site: Site) -> Edits:
    """Compute each tile from the parts of the operands that it needs."""
    *outer, m, n = site.node.shape
    whole = tuple((0, size) for size in outer)
    rows, columns = _steps(m, site.integer("rows")), _steps(n, site.integer("columns"))
    bands = [
        concat((window(site.node, (*whole, down, across)) for across in columns), -1)
        for down in rows
    ]
    return {site.name: same_format(site.node, concat(bands, -2))}


def _steps(length: int, step: int) -> list[tuple[int, int]]:
    return [(i, min(i + step, length)) for i in range(0, length, step)]


RULE = Rewrite(
    code="FUS110",
    name="tile-output",
    claim=Change.BITWISE,
    prose=__doc__,
    graph="""
        a: bf16[M, K]
        w: bf16[K, N]
        y: f32 = matmul(a, w) acc f32 seq
        z: bf16 = silu(y) * 2
        v: f32[N]
        r: f32 = v * 2
        return y, z, r
    """,
    at=("y",),
    sizes={"M": 3, "K": 4, "N": 2},
    rewrite=rewrite,
    parameters=(
        Parameter("rows", "length", "rows in a tile", axis=lambda site: site.node.shape[-2]),
        Parameter("columns", "length", "columns in a tile", axis=lambda site: site.node.shape[-1]),
    ),
    requires=(Require("the value has rows and columns", lambda site: len(site.node.shape) >= 2),),
    examples=(
        holds(  # the sum's bits depend on its order: 0x3f808000, and 0x3f808001 if it changed
            {"rows": 2, "columns": 1},
            a=((1, "0x1p-4", "0x1p-12", "0x1p-12"),) * 3,
            w=((1, 1), ("0x1p-4",) * 2, ("0x1p-12",) * 2, ("0x1p-12",) * 2),
            v=0,
        ),
        holds({"rows": 1, "columns": 2}, a=(1.5,) * 12, w=1, v=0, at=("z",)),
        rejects(
            "the value has rows and columns", {"rows": 1, "columns": 1}, a=1, w=1, v=1, at=("r",)
        ),
    ),
    title=lambda site: (
        f"`{site.name}` is computed in tiles of {site.integer('rows')} x {site.integer('columns')}"
    ),
    placement=True,
    places=lambda site: Placement(
        {site.name: Tile(rows=site.integer("rows"), columns=site.integer("columns"))}
    ),
)
