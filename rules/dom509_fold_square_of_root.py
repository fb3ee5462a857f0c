"""DOM509 fold-square-of-root: sqrt(x)^2 becomes x.

Why it matters: the root of a negative number is NaN, and its square stays NaN; folded, the number
passes. A check that a variance is not negative, or that a domain was left, no longer fires. The
root was rounded too, if it was a value of its own.
Legal: where x is known to be positive and the root was not rounded; else as a change of rounding.
Error: exact for x >= 0 where the root was not rounded; else at most an ulp of its format.
Source: IEEE 754-2019, clauses 5.4.1 and 7.2 (squareRoot of a negative number is invalid).
See also: DOM510 for the root of a square.
"""

from lastbit.change import Change
from lastbit.patterns import replace, same_format
from lastbit.patterns.roots import NO_SQUARE, square_of_root
from lastbit.rule import Edits, Rewrite, Site, breaks, holds, rejects


def rewrite(site: Site) -> Edits:
    """Write the operand of the root in place of the square."""
    square, x = square_of_root(site)
    return {site.name: same_format(site.node, replace(site.node, square, x))}


RULE = Rewrite(
    code="DOM509",
    name="fold-square-of-root",
    claim=Change.ROUNDING,
    prose=__doc__,
    graph="""
        x: f32[N]
        r: f32 = sqrt(x)
        y: f32 = r * r
        e: f32 = sqrt(x) * sqrt(x)
        z: f32 = x * x
    """,
    at=("y",),
    sizes={"N": 1},
    rewrite=rewrite,
    examples=(
        breaks(x=2, shows="y: 0x3fffffff -> 0x40000000"),  # the root of 2 is rounded
        breaks(x=-4),  # -4 in place of NaN
        breaks(at=("e",), x=-4),
        holds(x=4),
        holds(at=("e",), x=2),
        rejects(NO_SQUARE, at=("z",), x=1),
    ),
    loses=("domain",),
    title=lambda site: f"the square of a root in `{site.name}` is taken as what the root was of",
)
