"""CVT401 elide-narrow-wide: a value is no longer narrowed and widened again.

Why it matters: `x.to(bf16).float()` looks like two casts that cancel, and compilers remove it:
under float16 and bfloat16 autocast, in fused kernels, in constant folding. The narrowing was a
rounding, often written to match another program bit for bit.
Error: half an ulp of the narrow format in each value disappears.
Source: pytorch#176565 and xla#41605 (casts removed by compilers).
"""

from lastbit.change import Change
from lastbit.graph import Round
from lastbit.patterns import outer_rounding, replace, written_out
from lastbit.rule import Edits, MismatchError, Require, Rewrite, Site, breaks, holds, rejects


def pair(site: Site) -> tuple[Round, Round]:
    """Return the widening at a site, and the narrowing in front of it.

    Raises:
        MismatchError: there is no such pair.
    """
    wide = outer_rounding(site.node)
    narrow = written_out(site, wide.x)
    if not isinstance(narrow, Round):
        raise MismatchError("the value widens a value that was narrowed")
    if narrow.rounding.format.precision >= wide.rounding.format.precision:
        raise MismatchError("the value widens a value that was narrowed")
    return wide, narrow


def rewrite(site: Site) -> Edits:
    """Round once, to the wide format."""
    wide, narrow = pair(site)
    return {site.name: replace(site.node, wide, Round(narrow.x, wide.rounding))}


RULE = Rewrite(
    code="CVT401",
    name="elide-narrow-wide",
    claim=Change.ROUNDING,
    prose=__doc__,
    graph="""
        x: f32[N]
        n: bf16 = x
        y: f32 = n
        q: e4m3fn = x saturate
        z: f32 = q
        w: f32 = x * 2
    """,
    at=("y",),
    sizes={"N": 1},
    rewrite=rewrite,
    requires=(
        Require(
            "the narrow format is no grid",
            lambda site: not pair(site)[1].rounding.format.is_grid,
            lambda site: pair(site)[1].rounding.format.short,
        ),
    ),
    examples=(
        breaks(x="0x1.01p+0", shows="y: 0x3f800000 -> 0x3f808000"),  # 1 + 2**-8 in place of 1
        holds(x=3),  # a bf16
        rejects("the narrow format is no grid", at=("z",), x=3),
        rejects("the value widens a value that was narrowed", at=("w",), x=3),
    ),
    loses=("domain",),
    title=lambda site: (
        f"`{site.name}` is no longer narrowed to {pair(site)[1].rounding.format.short} on the way"
    ),
)
