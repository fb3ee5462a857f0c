"""FUS124 move-autocast-boundary: values are computed inside a region of a narrower format.

Why it matters: under autocast the same line computes in f32 outside and in bf16 inside, and a
refactoring, a compiler that outlines a block, or a hook moves the border. Operands are then cast on
the way in, and results are rounded before they are cast back. A gain of 1e-5 on a residual branch,
or a gradient scaled by it, is what breaks first.
Legal: as a change of rounding, along a border that the program declares.
Error: half an ulp of `format` in each operand and each result of the region.
Source: Micikevicius et al., "Mixed Precision Training" (arXiv 1710.03740), section 3;
pytorch#185676.
"""

from lastbit.change import Change
from lastbit.graph import Input, Node, Round, native_rounding, substitute, topological
from lastbit.patterns import NO_GRID_FORMAT, unrounded
from lastbit.rounding import Rounding
from lastbit.rule import Edits, MismatchError, Parameter, Rewrite, Site, breaks, holds, rejects

NEED = "each value of the region is computed and rounded"


def rewrite(site: Site) -> Edits:
    """Cast what the region reads to `format`, round what it computes, and cast it back."""
    inner = Rounding.of(site.text("format"))
    return {name: _inside(site, name, inner) for name in site.at}


def _inside(site: Site, name: str, inner: Rounding) -> Node:
    root = site.definition(name)
    outer = native_rounding(root)
    if outer is None or isinstance(root, Input):
        raise MismatchError(NEED)
    leaves = (
        node for node in topological([root]) if isinstance(node, Input) and node.name not in site.at
    )
    body = unrounded(root)
    cast = {leaf.key: Round(leaf, inner) for leaf in leaves}
    return Round(Round(substitute([body], cast)[body.key], inner), outer)


RULE = Rewrite(
    code="FUS124",
    name="move-autocast-boundary",
    claim=Change.ROUNDING,
    prose=__doc__,
    graph="""
        x: f32[N]
        g: f32[N]
        r: f32[N]
        t: f32 = x * g
        y: f32 = t + r
    """,
    at=("t",),
    sizes={"N": 1},
    rewrite=rewrite,
    parameters=(Parameter("format", "format", "the format inside the region", "bf16"),),
    requires=(NO_GRID_FORMAT,),
    loses=("domain",),
    examples=(
        breaks(
            x=1, g="0x1.01p+0", r=0, shows="y: 0x3f808000 -> 0x3f800000"
        ),  # the gain 1 + 2**-8 becomes 1
        breaks(x=1, g=1, r="0x1p-8", at=("t", "y")),
        breaks({"format": "f16"}, x="0x1.001p+0", g=1, r=0),
        holds(x=3, g=5, r=1),  # bf16 values all along
        rejects(NO_GRID_FORMAT.text, {"format": "e5m2"}, x=1, g=1, r=1),
        rejects(NEED, x=1, g=1, r=1, at=("x",)),
    ),
    title=lambda site: (
        f"{', '.join(f'`{name}`' for name in site.at)} "
        f"{'is' if len(site.at) == 1 else 'are'} computed from operands cast to "
        f"{site.text('format')}, and rounded to it"
    ),
)
