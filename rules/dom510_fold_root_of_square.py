"""DOM510 fold-root-of-square: sqrt(x^2) becomes |x|.

Why it matters: x^2 overflows from 2^64 in binary32 and from 256 in binary16, and is lost below
2^-75, where |x| is still an ordinary number. So the folded form is right where the written one is
not, and a run that overflowed before no longer does. On ordinary runs nothing changes, as long as
the square keeps as many digits as x: the root then rounds back to |x|.
Legal: where nothing relies on the overflow of the square; bit for bit if the square has no fewer
digits than x.
Error: exact where the square is no narrower than x; else u of its format.
Source: Boldo, "Stupid is as stupid does: taking the square root of the square of a floating-point
number" (Electronic Notes in Theoretical Computer Science 317, 2015).
"""

from lastbit.change import Change
from lastbit.graph import apply
from lastbit.patterns import replace, same_format
from lastbit.patterns.roots import NO_ROOT, root_of_square
from lastbit.rule import Edits, Rewrite, Site, breaks, holds, rejects


def rewrite(site: Site) -> Edits:
    """Write the magnitude in place of the root."""
    root, x = root_of_square(site)
    return {site.name: same_format(site.node, replace(site.node, root, apply("abs", x)))}


RULE = Rewrite(
    code="DOM510",
    name="fold-root-of-square",
    claim=Change.ROUNDING,
    prose=__doc__,
    graph="""
        x: f32[N]
        q: f32 = x * x
        y: f32 = sqrt(q)
        b: bf16 = x * x
        n: f32 = sqrt(b)
        z: f32 = sqrt(x)
    """,
    at=("y",),
    sizes={"N": 1},
    rewrite=rewrite,
    examples=(
        breaks(x="0x1p+100", shows="y: 0x7f800000 -> 0x71800000"),  # 2^100 in place of inf
        breaks(x="0x1p-100"),  # 2^-100 in place of 0
        breaks(at=("n",), x="0x1.01p+0"),  # the square is rounded to 1 + 2^-7
        holds(x="0x1.000002p+0"),  # the square is rounded, and the root takes it back
        rejects(NO_ROOT, at=("z",), x=1),
    ),
    loses=("domain",),
    title=lambda site: f"the root of a square in `{site.name}` is taken as a magnitude",
)
