"""DOM511 maximum-number: a maximum or minimum takes the operand that is a number where one is NaN.

Why it matters: IEEE 754-2019 has two operations, maximum, which propagates NaN, and maximumNumber,
which drops it, and instruction sets have both. C's fmax, and a GPU's max without the NaN suffix, do
the latter. A relu, a clamp or a running maximum then turns a NaN into a finite number, and a run
that has gone wrong looks healthy.
Legal: where no operand can be NaN.
Error: exact where no operand is NaN.
Source: IEEE 754-2019, clause 9.6; PTX ISA, `max` (with and without .NaN); triton#7349,
pytorch#99881.
See also: DOM506 for a relu by a comparison.
"""

from lastbit.change import Change
from lastbit.graph import Map, Node, apply, const
from lastbit.patterns import find, is_map, only, replace, same_format
from lastbit.rule import Edits, Rewrite, Site, breaks, holds, rejects

NEED = "the value holds one maximum or minimum of two"


def rewrite(site: Site) -> Edits:
    """Select the other operand where one is not equal to itself."""
    node = only(find(site.node, Map, lambda node: is_map(node, "max", "min", "relu")), NEED)
    x, y = node.xs if len(node.xs) == 2 else (*node.xs, const(0))
    new = _if_number(x, _if_number(y, node, x), y)
    return {site.name: same_format(site.node, replace(site.node, node, new))}


def _if_number(x: Node, yes: Node, no: Node) -> Node:
    return apply("select", apply("equal", x, x), yes, no)


RULE = Rewrite(
    code="DOM511",
    name="maximum-number",
    claim=Change.BITWISE,
    prose=__doc__,
    graph="""
        x: f32[N]
        u: f32[N]
        y: f32 = maximum(x, u)
        m: f32 = minimum(x, u)
        r: f32 = relu(x)
        z: f32 = x * u
    """,
    at=("y",),
    sizes={"N": 1},
    rewrite=rewrite,
    examples=(
        breaks(x=float("nan"), u=1, shows="y: 0x7fc00000 -> 0x3f800000"),  # 1 in place of NaN
        breaks(x=1, u=float("nan")),
        breaks(at=("m",), x=1, u=float("nan")),
        breaks(at=("r",), x=float("nan"), u=1),  # 0 in place of NaN
        holds(x=float("nan"), u=float("nan")),
        holds(x=-3, u=5),
        rejects(NEED, at=("z",), x=1, u=1),
    ),
    loses=("domain",),
    title=lambda site: f"`{site.name}` takes the operand that is a number where the other is NaN",
)
