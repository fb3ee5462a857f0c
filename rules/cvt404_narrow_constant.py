"""CVT404 narrow-constant: a constant is rounded to a narrow format before it is used.

Why it matters: a constant takes the format of the graph around it: sqrt(128) becomes 11.3125 in
bf16, and every score is off by the same 1 part in 10,000, always in one direction. An eps of 1e-8
is 0 in f16 and guards nothing. A constant folder with a format of its own does the same.
Legal: bit for bit where the constant is a number of the format; else only where the operation
declares that format for its constants.
Error: at most u of the format (2^-8 of bf16), the same relative error in every element.
Source: Higham, Accuracy and Stability of Numerical Algorithms, 2nd ed., sec. 2.2; pytorch/xla#8372.
"""

from lastbit.change import Change
from lastbit.graph import Const, Map, Node, Round, topological
from lastbit.patterns import NO_GRID_FORMAT, only, replace
from lastbit.rounding import Rounding
from lastbit.rule import Edits, Parameter, Rewrite, Site, breaks, holds, rejects

NEED = "the value holds one constant"


def _constant(root: Node) -> Node:
    """Return the one constant expression of a definition, as large as it is."""
    fixed: dict[bytes, Node] = {}
    parts: set[bytes] = set()
    for node in topological([root]):
        made = isinstance(node, Map | Round) and all(arg.key in fixed for arg in node.args)
        if isinstance(node, Const) or made:
            fixed[node.key] = node
            parts |= {arg.key for arg in node.args}
    return only((node for key, node in fixed.items() if key not in parts), NEED)


def rewrite(site: Site) -> Edits:
    """Round the constant to `format`."""
    constant = _constant(site.node)
    new = Round(constant, Rounding.of(site.text("format")))
    return {site.name: replace(site.node, constant, new)}


RULE = Rewrite(
    code="CVT404",
    name="narrow-constant",
    claim=Change.ROUNDING,
    prose=__doc__,
    graph="""
        x: f32[N]
        y: f32 = x / sqrt(128)
        t: f32 = x * 0.1
        e: f32 = x / (x + 1e-8)
        z: f32 = x * x
    """,
    at=("y",),
    sizes={"N": 1},
    rewrite=rewrite,
    parameters=(Parameter("format", "format", "the format of the constant", "bf16"),),
    requires=(NO_GRID_FORMAT,),
    loses=("domain",),
    examples=(
        breaks(x=1, shows="y: 0x3db504f3 -> 0x3db509e7"),
        breaks(x=1, at=("t",)),
        breaks({"format": "f16"}, x=1, at=("t",)),
        breaks({"format": "f16"}, x=0, at=("e",)),  # 0 / 0: an eps of 1e-8 is 0 in f16
        holds(x=0),
        rejects(NO_GRID_FORMAT.text, {"format": "e4m3fn"}, x=1),
        rejects(NEED, x=1, at=("z",)),
    ),
    title=lambda site: f"the constant in `{site.name}` is rounded to {site.text('format')}",
)
