"""DOM512 maximum-from-lowest: a maximum starts at the lowest finite number instead of -inf.

Why it matters: the maximum of nothing is whatever it starts from. Kernels that start from the
lowest finite number of the format (-3.4e38, -65504), or libraries that declare it as the result of
an empty reduction, give it for a row without elements and for a row whose elements are all masked
with -inf, and what follows takes it for a score: exp(x - max) is 0 where it was NaN, and the row
looks like one that has been computed.
Legal: where every row has an element above -inf.
Error: exact for a row with a finite element.
Source: IEEE 754-2019, clause 9.6; ONNX operators, ReduceMax (the empty set gives -inf, or the
lowest value of a type without one); onnxruntime#28743.
See also: DOM513 for a finite number in the mask.
"""

from lastbit.change import Change
from lastbit.graph import Const, Map, Reduce, native_rounding
from lastbit.patterns import find, only, replace, same_format
from lastbit.rule import Edits, MismatchError, Rewrite, Site, breaks, holds, rejects

NEED = "the value holds one maximum along an axis, of values of a format"


def rewrite(site: Site) -> Edits:
    """Take the maximum of the lowest finite number too."""
    top = only(find(site.node, Reduce, lambda node: node.op == "max"), NEED)
    rounding = native_rounding(top.x)
    if rounding is None:
        raise MismatchError(NEED)
    start = Map("max", (Const(rounding.format.min_finite), top))
    return {site.name: same_format(site.node, replace(site.node, top, start))}


RULE = Rewrite(
    code="DOM512",
    name="maximum-from-lowest",
    claim=Change.BITWISE,
    prose=__doc__,
    graph="""
        x: f32[M, K]
        y: f32 = max(x)
        w: f32 = exp(x - max(x))
        z: f32 = x * 2
        e: f32 = max(x * 2)
    """,
    at=("y",),
    sizes={"M": 1, "K": 2},
    rewrite=rewrite,
    examples=(
        breaks(
            x=float("-inf"), shows="y: 0xff800000 -> 0xff7fffff"
        ),  # the lowest finite number in place of -inf
        breaks(at=("w",), x=float("-inf")),  # weights of 0 in place of NaN
        holds(x=[[float("-inf"), -3]]),
        holds(x=[[-1, -2]]),
        rejects(NEED, at=("z",), x=1),
        rejects(NEED, at=("e",), x=1),
    ),
    loses=("domain",),
    title=lambda site: f"the maximum in `{site.name}` starts at the lowest finite number",
)
