"""CVT401 elide-narrow-wide: a value is no longer narrowed and widened again.

Why it matters: `x.to(bf16).float()` looks like two casts that cancel, and compilers remove it:
under float16 and bfloat16 autocast, in fused kernels, in constant folding. The narrowing was a
rounding, often written to match another program bit for bit.
Legal: as a change of rounding; bit for bit only where the value is one of the narrow format
already. Never where the narrowing is the purpose, as in simulated storage or quantization.
Error: half an ulp of the narrow format in each value disappears.
Source: pytorch#176565 and xla#41605 (casts removed by compilers).
See also: FUS102 for a rounding that a store performed; CVT402 for the pair the other way round.
"""

from lastbit.change import Change
from lastbit.graph import Round
from lastbit.patterns import replace
from lastbit.patterns.casts import NO_WIDENED, narrowed_first
from lastbit.rule import Edits, Require, Rewrite, Site, breaks, holds, rejects


def rewrite(site: Site) -> Edits:
    """Round once, to the wide format."""
    wide, narrow = narrowed_first(site)
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
            lambda site: not narrowed_first(site)[1].rounding.format.is_grid,
            lambda site: narrowed_first(site)[1].rounding.format.short,
        ),
    ),
    examples=(
        breaks(x="0x1.01p+0", shows="y: 0x3f800000 -> 0x3f808000"),  # 1 + 2**-8 in place of 1
        holds(x=3),  # a bf16
        rejects("the narrow format is no grid", at=("z",), x=3),
        rejects(NO_WIDENED, at=("w",), x=3),
    ),
    loses=("domain",),
    title=lambda site: (
        f"`{site.name}` is no longer narrowed to "
        f"{narrowed_first(site)[1].rounding.format.short} on the way"
    ),
)
