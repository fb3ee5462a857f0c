"""FUS121 rsqrt-for-sqrt: a division by a square root becomes a product with rsqrt.

Why it matters: compilers see x / sqrt(v) and use the one instruction for 1 / sqrt(v). The rounded
root and the rounded quotient give way to a rounded reciprocal root and a rounded product. A
normalisation that divided in one release multiplies in the next, and its bits move.
Legal: as a change of rounding.
Error: two roundings on either side, so both lie within 2 u of the exact quotient (to first order)
and within 4 u of each other. An instruction that only approximates rsqrt adds its own error.
Source: Higham, Accuracy and Stability of Numerical Algorithms, 2nd ed., sec. 2.2; IEEE 754-2019,
clause 9.2 (rSqrt); xla#40844, xla#40862.
"""

from lastbit.change import Change
from lastbit.graph import Map, Node, Round, apply
from lastbit.patterns import NO_GRID_FORMAT, find, is_map, replace, written_out
from lastbit.rounding import Rounding
from lastbit.rule import Edits, MismatchError, Parameter, Rewrite, Site, breaks, holds, rejects

NEED = "the value divides by a square root"


def rewrite(site: Site) -> Edits:
    """Multiply by the reciprocal square root, rounded to `format`."""
    for ratio in find(site.node, Map, lambda node: is_map(node, "div")):
        root = written_out(site, ratio.xs[1])
        root = root.x if isinstance(root, Round) else root
        if isinstance(root, Map) and root.fn == "sqrt" and root.shape == ratio.xs[1].shape:
            return {site.name: replace(site.node, ratio, _product(site, ratio, root))}
    raise MismatchError(NEED)


def _product(site: Site, ratio: Map, root: Map) -> Node:
    inverse = Round(apply("rsqrt", root.xs[0]), Rounding.of(site.text("format")))
    return apply("mul", ratio.xs[0], inverse)


RULE = Rewrite(
    code="FUS121",
    name="rsqrt-for-sqrt",
    claim=Change.ROUNDING,
    prose=__doc__,
    graph="""
        x: f32[N]
        v: f32[1]
        d: f32 = sqrt(v)
        y: f32 = x / d
        z: f32 = x / v
    """,
    at=("y",),
    sizes={"N": 4},
    rewrite=rewrite,
    parameters=(Parameter("format", "format", "the format of the reciprocal root", "f32"),),
    requires=(NO_GRID_FORMAT,),
    loses=("domain",),
    examples=(
        breaks(x=3, v=3, shows="y[0]: 0x3fddb3d8 -> 0x3fddb3d7"),
        holds(x=3, v=4),  # both roots are exact
        rejects(NO_GRID_FORMAT.text, {"format": "e4m3fn"}, x=1, v=1),
        rejects(NEED, x=1, v=1, at=("z",)),
    ),
    title=lambda site: f"`{site.name}` multiplies by rsqrt instead of dividing by a square root",
)
