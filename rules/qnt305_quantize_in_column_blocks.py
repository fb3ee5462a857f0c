"""QNT305 quantize-in-column-blocks: each block of output columns quantizes the row again.

Why it matters: fused into the matrix product, the quantization runs once for every block of output
columns, on the same row with the row's own scale. That costs reads, not bits: the codes are the
same in every block. It stays so only as long as the scale is that of the whole row.
Legal: always, with the scale of the whole row.
Error: exact.
Source: IEEE 754-2019, clause 4.3 (a rounding is a function of its operand).
"""

from lastbit.change import Change
from lastbit.cost.placement import Placement, Tile
from lastbit.graph import Node, Reduce, apply, concat, substitute
from lastbit.patterns import replace
from lastbit.patterns.blocks import block_of, blocks_of
from lastbit.patterns.quantized import NO_GRID, ROW_SCALED, grid_at
from lastbit.rule import Edits, Parameter, Require, Rewrite, Site, holds, rejects


def columns(site: Site) -> int:
    """Return the number of columns of the product of quantized values."""
    grid = grid_at(site)
    total = grid.product_in(next(iter(grid.readers), grid.name))
    return total.shape[grid.column_axis(total)]


def rewrite(site: Site) -> Edits:
    """Write the quantization into each block of columns."""
    grid = grid_at(site)
    edits: dict[str, Node] = {}
    for reader in grid.readers:
        total = grid.product_in(reader)
        axis = grid.column_axis(total)
        codes, other = grid.operands(total)
        local = substitute([codes], {grid.codes.key: grid.node})[codes.key]
        parts = []
        for block in blocks_of(other.shape[axis], site.integer("block")):
            terms = apply("mul", local, block_of(other, axis, block))
            parts.append(Reduce("sum", terms, total.axis, total.schedule, total.acc))
        edits[reader] = replace(site.definition(reader), total, concat(parts, axis))
    return edits


def places(site: Site) -> Placement:
    """Compute the codes in the kernels of the products, a block of columns at a time."""
    grid = grid_at(site)
    tile = Tile(columns=site.integer("block"))
    inside = frozenset((grid.name, reader) for reader in grid.readers if grid.named)
    return Placement(dict.fromkeys(grid.readers, tile), inside)


RULE = Rewrite(
    code="QNT305",
    name="quantize-in-column-blocks",
    claim=Change.BITWISE,
    prose=__doc__,
    graph=ROW_SCALED + "\nr: f32 = t * 2\n",
    at=("q",),
    sizes={"M": 1, "K": 2, "N": 2},
    rewrite=rewrite,
    parameters=(Parameter("block", "length", "output columns in a block", axis=columns),),
    requires=(
        Require(
            "1 <= block < N",
            lambda site: 1 <= site.integer("block") < columns(site),
            lambda site: f"N={columns(site)}, block={site.integer('block')}",
        ),
    ),
    examples=(
        holds({"block": 1}, t=[[1, 10]], w=[[1, 3], [0, 5]]),
        rejects("1 <= block < N", {"block": 2}, t=[[1, 10]], w=[[1, 3], [0, 5]]),
        rejects(NO_GRID, {"block": 1}, at=("r",), t=[[1, 10]], w=[[1, 3], [0, 5]]),
    ),
    title=lambda site: (
        f"each block of {site.integer('block')} output columns computes `{grid_at(site).name}` "
        "again, by the row's scale"
    ),
    placement=True,
    places=places,
)
