"""DOM518 relu-by-maximum: `x < 0 ? 0 : x` is computed as a maximum with 0.

Why it matters: -0 is not below 0, so the comparison keeps it; the maximum of -0 and 0 is 0 in IEEE
754-2019, and the second operand on hardware that takes them for equal. As numbers they are the
same; 1 / x, copysign and a comparison of bits are not.
Legal: where x is known not to be -0, or nothing reads the sign of a zero.
Error: exact for everything but -0.
Source: IEEE 754-2019, clauses 5.11 and 9.6 (maximum orders -0 below 0); pytorch#196039.
"""

from lastbit.change import Change
from lastbit.graph import Map, apply
from lastbit.patterns import find, is_map, is_number, only, replace, same_format
from lastbit.rule import Edits, Rewrite, Site, breaks, holds, rejects

NEED = "the value is 0 where something is below 0, and that itself elsewhere"


def is_relu(node: Map) -> bool:
    """Return whether a node is `x < 0 ? 0 : x`."""
    if not (is_map(node, "select") and isinstance(node.xs[0], Map)):
        return False
    test, zero, x = node.xs
    below = is_map(test, "less") and is_number(test.args[1], 0)
    return below and is_number(zero, 0) and test.args[0].key == x.key


def rewrite(site: Site) -> Edits:
    """Take the maximum with 0."""
    relu = only(find(site.node, Map, is_relu), NEED)
    new = apply("max", relu.xs[2], 0)
    return {site.name: same_format(site.node, replace(site.node, relu, new))}


RULE = Rewrite(
    code="DOM518",
    name="relu-by-maximum",
    claim=Change.BITWISE,
    prose=__doc__,
    graph="""
        x: f32[N]
        y: f32 = select(x < 0, 0, x)
        z: f32 = select(0 < x, x, 0)
    """,
    at=("y",),
    sizes={"N": 1},
    rewrite=rewrite,
    examples=(
        breaks(x=-0.0, shows="y: 0x80000000 -> 0x00000000"),  # 0 in place of -0
        holds(x=float("nan")),  # a maximum keeps NaN, and so does a comparison that is false
        holds(x=-3),
        rejects(NEED, at=("z",), x=1),
    ),
    loses=("domain",),
    title=lambda site: f"`{site.name}` is a maximum with 0, which takes 0 for -0",
)
