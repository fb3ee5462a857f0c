"""DOM507 fold-multiply-by-zero: x * 0 becomes 0.

Why it matters: for inf and NaN the product is NaN, and for negative x it is -0. A mask that is
written as a product does not mind; a loss that checks for overflow, and a NaN that should stop a
run, do.
Legal: for integers, and where x is known to be finite and of positive sign.
Error: exact for finite x that are not negative.
Source: IEEE 754-2019, clauses 6.3 and 7.2; pytorch#186281, tilelang#2638.
"""

from lastbit.change import Change
from lastbit.graph import Map, broadcast, const
from lastbit.patterns import find, is_map, is_number, only, replace, same_format
from lastbit.rule import Edits, Rewrite, Site, breaks, holds, rejects

NEED = "the value multiplies by 0 once"


def is_zero_product(node: Map) -> bool:
    """Return whether a node is x * 0 or 0 * x."""
    return is_map(node, "mul") and any(is_number(x, 0) for x in node.xs)


def rewrite(site: Site) -> Edits:
    """Write 0 in place of the product."""
    product = only(find(site.node, Map, is_zero_product), NEED)
    zero = broadcast(const(0), product.shape)
    return {site.name: same_format(site.node, replace(site.node, product, zero))}


RULE = Rewrite(
    code="DOM507",
    name="fold-multiply-by-zero",
    claim=Change.BITWISE,
    prose=__doc__,
    graph="""
        x: f32[N]
        y: f32 = x * 0
        z: f32 = x * 2
    """,
    at=("y",),
    sizes={"N": 1},
    rewrite=rewrite,
    examples=(
        breaks(x=float("inf"), shows="y: 0x7fc00000 -> 0x00000000"),  # 0 in place of NaN
        breaks(x=-3),  # 0 in place of -0
        holds(x=3),
        rejects(NEED, at=("z",), x=1),
    ),
    loses=("domain",),
    title=lambda site: f"a product with 0 in `{site.name}` is taken as 0",
)
