"""FUS113 fuse-loops: the loops over the tiles of a result become one loop over a linear index.

Why it matters: tasks are dealt out to a machine by one number: 16 x 192 tiles become 0 to 3071.
Each index names one tile, each tile is computed as before, and only who computes it changes.
Legal: always, for tiles that divide the value.
Error: none; the same rounded operations run on the same operands.
Source: Chen et al., "TVM: An Automated End-to-End Optimizing Compiler for Deep Learning" (arXiv
1802.04799), section 4, the schedule primitive `fuse`.
"""

from lastbit.change import Change
from lastbit.cost.placement import Placement, Tile
from lastbit.graph import concat, reshape, transpose
from lastbit.patterns import same_format
from lastbit.patterns.windows import window
from lastbit.rule import Edits, MismatchError, Parameter, Require, Rewrite, Site, holds, rejects


def rewrite(site: Site) -> Edits:
    """Compute the tiles in one list, and put each where its index says."""
    if len(site.node.shape) != 2:
        raise MismatchError("the value has two axes")
    (m, n), (rows, columns) = site.node.shape, (site.integer("rows"), site.integer("columns"))
    across = n // columns
    tiles = []
    for index in range(m // rows * across):
        i, j = index // across * rows, index % across * columns
        tiles.append(
            reshape(window(site.node, ((i, i + rows), (j, j + columns))), (1, rows, columns))
        )
    grid = reshape(concat(tiles, 0), (m // rows, across, rows, columns))
    return {site.name: same_format(site.node, reshape(transpose(grid, (0, 2, 1, 3)), (m, n)))}


def _divides(name: str, axis: int) -> Require:
    return Require(
        f"{name} divides the {'rows' if axis == -2 else 'columns'} of the value",
        lambda site: site.node.shape[axis] % site.integer(name) == 0,
        lambda site: f"{site.node.shape[axis]} and {name}={site.integer(name)}",
    )


RULE = Rewrite(
    code="FUS113",
    name="fuse-loops",
    claim=Change.BITWISE,
    prose=__doc__,
    graph="""
        a: bf16[M, K]
        w: bf16[K, N]
        y: f32 = matmul(a, w) acc f32 seq
        v: f32[4, 2, 2]
        r: f32 = v * 2
    """,
    at=("y",),
    sizes={"M": 4, "K": 2, "N": 6},
    rewrite=rewrite,
    parameters=(
        Parameter("rows", "length", "rows in a tile", axis=lambda site: site.node.shape[-2]),
        Parameter("columns", "length", "columns in a tile", axis=lambda site: site.node.shape[-1]),
    ),
    requires=(_divides("rows", -2), _divides("columns", -1)),
    examples=(
        holds(  # y[i, j] = i + 4 j: no two elements are equal
            {"rows": 2, "columns": 2},
            a=((1, 0), (1, 1), (1, 2), (1, 3)),
            w=((0, 4, 8, 12, 16, 20), (1,) * 6),
            v=0,
        ),
        rejects("rows divides the rows of the value", {"rows": 3, "columns": 2}, a=1, w=1, v=1),
        rejects(
            "columns divides the columns of the value", {"rows": 2, "columns": 4}, a=1, w=1, v=1
        ),
        rejects("the value has two axes", {"rows": 1, "columns": 1}, a=1, w=1, v=1, at=("r",)),
    ),
    title=lambda site: (
        f"the tiles of `{site.name}` ({site.integer('rows')} x {site.integer('columns')}) "
        "are numbered by one index"
    ),
    placement=True,
    places=lambda site: Placement(
        {site.name: Tile(rows=site.integer("rows"), columns=site.integer("columns"))}
    ),
)
