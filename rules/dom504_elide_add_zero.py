"""DOM504 elide-add-zero: the addition of a zero is left out.

Why it matters: x + 0 is x for every number except -0, for which it is 0. A simplifier that drops it
for floats (for the constant -0 it may) changes the sign of zeros, and with it 1/x, atan2 and the
bits that a test compares.
Legal: for the constant -0, for integers, and where x is known not to be -0.
Error: exact for everything but -0.
Source: IEEE 754-2019, clause 6.3; pytorch#189799.
"""

from lastbit.change import Change
from lastbit.graph import Map
from lastbit.patterns import find, is_map, is_number, only, replace, same_format
from lastbit.rule import Edits, Rewrite, Site, breaks, holds, rejects

NEED = "the value adds a zero once"


def adds_zero(node: Map) -> bool:
    """Return whether a node is x + 0 or 0 + x."""
    return is_map(node, "add") and any(is_number(x, 0) for x in node.xs)


def rewrite(site: Site) -> Edits:
    """Write the other operand in place of the sum."""
    total = only(find(site.node, Map, adds_zero), NEED)
    rest = total.xs[1] if is_number(total.xs[0], 0) else total.xs[0]
    return {site.name: same_format(site.node, replace(site.node, total, rest))}


RULE = Rewrite(
    code="DOM504",
    name="elide-add-zero",
    claim=Change.BITWISE,
    prose=__doc__,
    graph="""
        x: f32[N]
        y: f32 = x + 0
        z: f32 = x * 2
    """,
    at=("y",),
    sizes={"N": 1},
    rewrite=rewrite,
    examples=(
        breaks(x=-0.0, shows="y: 0x00000000 -> 0x80000000"),  # -0 in place of 0
        holds(x=-3),
        rejects(NEED, at=("z",), x=1),
    ),
    loses=("domain",),
    title=lambda site: f"`{site.name}` no longer adds a zero",
)
