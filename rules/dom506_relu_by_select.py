"""DOM506 relu-by-select: relu is computed as `x > 0 ? x : 0` instead of max(x, 0).

Why it matters: the comparison is false for NaN, so NaN becomes 0, where a maximum that follows IEEE
754-2019 keeps it. A run that has gone wrong then looks healthy. Hardware maxima differ too: some
return the other operand.
Legal: where x is known not to be NaN.
Error: exact for every number.
Source: IEEE 754-2019, clauses 5.11 and 9.6 (maximum propagates NaN); tvm#19579, TensorRT-LLM#18082.
See also: DOM518 for the other comparison; DOM511 for maxima that drop NaN.
"""

from lastbit.change import Change
from lastbit.graph import Map, apply
from lastbit.patterns import find, is_map, is_number, only, replace, same_format
from lastbit.rule import Edits, Rewrite, Site, breaks, holds, rejects

NEED = "the value holds one relu, or one maximum with 0"


def is_relu(node: Map) -> bool:
    """Return whether a node is relu(x) or max(x, 0)."""
    zero = any(is_number(x, 0) for x in node.xs)
    return is_map(node, "relu") or (is_map(node, "max") and zero)


def rewrite(site: Site) -> Edits:
    """Select by a comparison."""
    relu = only(find(site.node, Map, is_relu), NEED)
    x = relu.xs[-1] if is_number(relu.xs[0], 0) else relu.xs[0]
    new = apply("select", apply("less", 0, x), x, 0)
    return {site.name: same_format(site.node, replace(site.node, relu, new))}


RULE = Rewrite(
    code="DOM506",
    name="relu-by-select",
    claim=Change.BITWISE,
    prose=__doc__,
    graph="""
        x: bf16[N]
        y: bf16 = relu(x)
        m: bf16 = maximum(x, 0)
        z: bf16 = x * 2
    """,
    at=("y",),
    sizes={"N": 1},
    rewrite=rewrite,
    examples=(
        breaks(x=float("nan"), shows="y: 0x7fc0 -> 0x0000"),  # 0 in place of NaN
        breaks(at=("m",), x=float("nan")),
        holds(x=-3),
        holds(x=-0.0),
        rejects(NEED, at=("z",), x=1),
    ),
    loses=("domain",),
    title=lambda site: f"`{site.name}` selects by a comparison with 0, which is false for NaN",
)
