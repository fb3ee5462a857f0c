"""QNT314 saturate-to-nan: a conversion that saturated gives NaN above the largest value.

Why it matters: libraries disagree on what 1000 becomes in e4m3fn: 448 or NaN; one library has
changed its mind between two releases. Values that fit keep their bits, so tests pass until an
outlier comes.
Legal: where no value is beyond the largest finite one, or both sides state the policy.
Error: exact up to the largest finite value; beyond it NaN.
Source: OCP 8-bit Floating Point Specification (OFP8) 1.0, which allows both; ml_dtypes#400,
pytorch#178817.
See also: DOM532, which finds conversions that state no policy.
"""

import dataclasses

from lastbit.change import Change
from lastbit.graph import Round
from lastbit.patterns.quantized import grid_at
from lastbit.rule import Edits, MismatchError, Require, Rewrite, Site, breaks, holds, rejects


def rewrite(site: Site) -> Edits:
    """Give NaN above the largest finite value."""
    grid = grid_at(site)
    if grid.node.rounding.overflow != "saturate":
        raise MismatchError("the conversion saturates")
    to_nan = dataclasses.replace(grid.node.rounding, overflow="nan")
    return grid.replaced(Round(grid.node.x, to_nan))


RULE = Rewrite(
    code="QNT314",
    name="saturate-to-nan",
    claim=Change.BITWISE,
    prose=__doc__,
    graph="""
        x: bf16[N]
        q: e4m3fn = x / 2 saturate
        d: e5m2 = x / 2
        i: int8 = x saturate
    """,
    at=("q",),
    sizes={"N": 1},
    rewrite=rewrite,
    requires=(
        Require("the grid has a NaN", lambda site: grid_at(site).node.rounding.format.has_nan),
    ),
    examples=(
        breaks(x=1000, shows="q: 0x7e -> 0x7f"),  # NaN in place of 448
        holds(x=896),  # 448 fits
        rejects("the conversion saturates", at=("d",), x=1),
        rejects("the grid has a NaN", at=("i",), x=1),
    ),
    loses=("domain",),
    title=lambda site: f"`{grid_at(site).name}` gives NaN where it saturated",
)
