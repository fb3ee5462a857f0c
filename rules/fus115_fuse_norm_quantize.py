"""FUS115 fuse-norm-quantize: a norm and the quantization of its result become one kernel.

Why it matters: the fused kernel is written for one element type, and reads the weight as the
activations are stored. A pattern that does not compare the two formats also matches an f32 weight
beside bf16 activations: rounded to bf16 it gives other codes, and read as bf16 bits it gives noise.
The roundings of the norm and of its result stay, so where the formats agree every code is the same.
Legal: where the weight has the format of the activations and both roundings stay.
Error: exact where the weight has the activations' format.
Source: IEEE 754-2019, clause 4.3 (a rounding is a function of its operand); vllm#48324, where a
pattern lacked the comparison.
See also: QNT306 for any value; QNT307, where its rounding is dropped.
"""

from lastbit.change import Change
from lastbit.graph import Round, native_rounding
from lastbit.patterns import replace
from lastbit.patterns.norms import NO_NORM, norm_in
from lastbit.patterns.quantized import grid_at, operand_inside, rounded_input
from lastbit.rule import Edits, Require, Rewrite, Site, holds, rejects

FORMATS_AGREE = "the weight has the format of the activations"


def rewrite(site: Site) -> Edits:
    """Write the norm into the conversion; the kernel reads the weight in the norm's format."""
    grid = grid_at(site)
    leaf = rounded_input(site, grid.numerator)
    body = site.definition(leaf.name)
    norm = norm_in(site, body)
    weight = Round(norm.weight, norm.rounding.rounding)
    product = replace(norm.product, norm.weight, weight)
    return grid.replaced(replace(grid.node, leaf, replace(body, norm.product, product)))


def _formats(site: Site) -> tuple[str, str]:
    norm = norm_in(site, site.definition(rounded_input(site, grid_at(site).numerator).name))
    weight = native_rounding(norm.weight)
    return ("real" if weight is None else str(weight), str(norm.rounding.rounding))


RULE = Rewrite(
    code="FUS115",
    name="fuse-norm-quantize",
    claim=Change.BITWISE,
    prose=__doc__,
    graph="""
        x: bf16[M, K]
        w: bf16[K]
        wide: f32[K]
        v: f32[M, 1]                       # the mean square of each row
        s: f32[1]
        n: bf16 = x * rsqrt(v)
        y: bf16 = n * w
        q: e4m3fn = y / s saturate
        c: bf16 = n * wide
        d: e4m3fn = c / s saturate
        t: bf16 = x + 1
        e: e4m3fn = t / s saturate
        f: e4m3fn = x / s saturate
    """,
    at=("q",),
    sizes={"M": 2, "K": 2},
    rewrite=rewrite,
    requires=(
        Require(
            FORMATS_AGREE,
            lambda site: len(set(_formats(site))) == 1,
            lambda site: " and ".join(_formats(site)),
        ),
    ),
    examples=(
        holds(x=3, w="0x1.02p+0", wide=1, v=4, s="0x1.8p-2"),
        rejects(FORMATS_AGREE, x=1, w=1, wide="0x1.01p+0", v=1, s=1, at=("d",)),
        rejects(NO_NORM, x=1, w=1, wide=1, v=1, s=1, at=("e",)),
        rejects(
            "what is quantized is a value that the program rounds",
            **{"x": 1, "w": 1, "wide": 1, "v": 1, "s": 1},
            at=("f",),
        ),
    ),
    title=lambda site: f"`{grid_at(site).name}` is quantized where its norm is computed",
    placement=True,
    places=operand_inside,
)
