"""QNT307 quantize-unrounded: the rounding in front of a quantization is dropped.

Why it matters: a fused kernel holds the value in binary32 and quantizes that, where the unfused
program quantized what it had stored in bf16. Values next to a midpoint of the grid fall to the
other side: 17/16 + 2^-12 gives 1.0 by way of bf16 and 1.125 without.
Legal: as a change of rounding of what is quantized; bit for bit where the value is one of the
dropped format already.
Error: one code, for the values whose rounding crosses or reaches a midpoint of the grid.
Source: Boldo and Melquiond, "Emulation of FMA and correctly rounded sums: proved algorithms using
rounding to odd" (IEEE Trans. Comput. 57(4), 2008), section 2 (double rounding); vllm#10906.
See also: QNT306 with the rounding; QNT308, where the maximum alone skips it.
"""

from lastbit.change import Change
from lastbit.patterns import replace, unrounded
from lastbit.patterns.quantized import grid_at, rounded_input
from lastbit.rule import Edits, Rewrite, Site, breaks, holds, rejects


def rewrite(site: Site) -> Edits:
    """Quantize what the value was before its rounding; its other readers see it rounded."""
    grid = grid_at(site)
    leaf = rounded_input(site, grid.numerator)
    return grid.replaced(replace(grid.node, leaf, unrounded(site.definition(leaf.name))))


RULE = Rewrite(
    code="QNT307",
    name="quantize-unrounded",
    claim=Change.ROUNDING,
    prose=__doc__,
    graph="""
        x: f32[N]
        u: bf16[N]
        z: bf16 = x * u
        q: e4m3fn = z / 1 saturate
        d: e4m3fn = u saturate
        v: f32[N]
        h: f16 = x * u
        p: e4m3fn = h / v to_nan
    """,
    at=("q",),
    sizes={"N": 1},
    rewrite=rewrite,
    examples=(
        breaks(
            x="0x1.101p+0", u=1, v=1, shows="q: 0x38 -> 0x39"
        ),  # 17/16 + 2**-12: 1.125 in place of 1
        breaks(x=2**17, u=1, v=512, at=("p",)),  # 256, not NaN: 2^17 is inf in f16
        holds(x="0x1.1p+0", u=1, v=1),  # 17/16 is a bf16
        rejects("what is quantized is a value that the program rounds", at=("d",), x=1, u=1, v=1),
    ),
    loses=("domain",),
    title=lambda site: f"`{grid_at(site).name}` is quantized from a value that was never rounded",
)
