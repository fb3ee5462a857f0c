"""QNT306 fuse-quantize: a conversion to a grid is fused with what it converts, roundings kept.

Why it matters: the value is no longer stored and read again before it is quantized. As long as its
rounding still happens in registers, every code is the same.
Legal: always, with the rounding in front of the conversion kept.
Error: exact.
Source: IEEE 754-2019, clause 4.3 (a rounding is a function of its operand).
See also: QNT307 without the rounding; FUS115 for a norm.
"""

from lastbit.change import Change
from lastbit.patterns import replace
from lastbit.patterns.quantized import grid_at, operand_inside, rounded_input
from lastbit.rule import Edits, Rewrite, Site, holds, rejects


def rewrite(site: Site) -> Edits:
    """Write the rounded value into the conversion."""
    grid = grid_at(site)
    leaf = rounded_input(site, grid.numerator)
    return grid.replaced(replace(grid.node, leaf, site.definition(leaf.name)))


RULE = Rewrite(
    code="QNT306",
    name="fuse-quantize",
    claim=Change.BITWISE,
    prose=__doc__,
    graph="""
        x: f32[N]
        u: bf16[N]
        z: bf16 = x * u
        q: e4m3fn = z / 1 saturate
        d: e4m3fn = u saturate
    """,
    at=("q",),
    sizes={"N": 1},
    rewrite=rewrite,
    examples=(
        holds(x="0x1.101p+0", u=1),  # 17/16 + 2**-12: bf16 makes it a tie, and 1
        holds(x=3, u=5),
        rejects("what is quantized is a value that the program rounds", at=("d",), x=1, u=1),
    ),
    title=lambda site: f"`{grid_at(site).name}` is converted where its operand is computed",
    placement=True,
    places=operand_inside,
)
