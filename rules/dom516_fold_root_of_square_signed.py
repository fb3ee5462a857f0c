"""DOM516 fold-root-of-square-signed: sqrt(x^2) becomes x, without the magnitude.

Why it matters: it is right for x >= 0 only. Tests with probabilities, norms or activations behind a
relu do not notice, and a negative number changes its sign.
Legal: where x is known not to be negative.
Error: 2 |x| for negative x; for others that of DOM510.
Source: Boldo, "Stupid is as stupid does: taking the square root of the square of a floating-point
number" (Electronic Notes in Theoretical Computer Science 317, 2015): the root gives |x|.
"""

from lastbit.change import Change
from lastbit.patterns import replace, same_format
from lastbit.patterns.roots import NO_ROOT, root_of_square
from lastbit.rule import Edits, Rewrite, Site, breaks, holds, rejects


def rewrite(site: Site) -> Edits:
    """Write what was squared in place of the root."""
    root, x = root_of_square(site)
    return {site.name: same_format(site.node, replace(site.node, root, x))}


RULE = Rewrite(
    code="DOM516",
    name="fold-root-of-square-signed",
    claim=Change.MATH,
    prose=__doc__,
    graph="""
        x: f32[N]
        y: f32 = sqrt(x * x)
        q: f32 = x * x
        r: f32 = sqrt(q)
        z: f32 = sqrt(x * x + 1)
    """,
    at=("y",),
    sizes={"N": 1},
    rewrite=rewrite,
    examples=(
        breaks(x=-3, shows="y: 0x40400000 -> 0xc0400000"),  # -3 in place of 3
        breaks(x="0x1p+100", at=("r",)),  # 2^100 in place of inf
        holds(x=3),
        rejects(NO_ROOT, at=("z",), x=1),
    ),
    loses=("domain",),
    title=lambda site: f"the root of a square in `{site.name}` is taken as what was squared",
)
