"""CVT406 tf32-operands: the operands of a matrix product are rounded to tf32.

Why it matters: matrix units have no f32 path, so a flag, on by default in some releases, sends f32
products through tf32, which keeps 10 bits behind the point. The accumulator stays f32 and the
tensors too, so nothing in the program shows it: 1024.5 times 1 gives 1025.
Legal: where it was asked for, as a change of rounding; bit for bit for operands of at most 11
digits.
Error: u of tf32 (2^-11) in each operand: relative errors of 2.9e-4 against 2.8e-7 in a product of
512 terms.
Source: NVIDIA PTX ISA, instruction `cvt.rna.tf32.f32`; pytorch#53635, mlx#3860.
"""

from lastbit.change import Change
from lastbit.formats import TF32
from lastbit.graph import Node, Round, native_rounding
from lastbit.patterns import replace
from lastbit.patterns.products import NO_PRODUCT, product_in
from lastbit.rounding import Rounding
from lastbit.rule import Edits, MismatchError, Parameter, Rewrite, Site, breaks, holds, rejects

NEED = "an operand has more digits than tf32"


def rewrite(site: Site) -> Edits:
    """Round both operands."""
    product, rounding = product_in(site.node), Rounding.of(TF32, mode=site.text("mode"))
    operands = [_narrowed(x, rounding) for x in (product.a, product.b)]
    if operands == [product.a, product.b]:
        raise MismatchError(NEED)
    return {site.name: replace(site.node, product.node, product.of(*operands))}


def _narrowed(x: Node, rounding: Rounding) -> Node:
    own = native_rounding(x)
    return x if own is not None and own.format.precision <= TF32.precision else Round(x, rounding)


RULE = Rewrite(
    code="CVT406",
    name="tf32-operands",
    claim=Change.ROUNDING,
    prose=__doc__,
    graph="""
        a: f32[M, K]
        b: f32[K, N]
        h: f16[K, N]
        y: f32 = matmul(a, b) acc f32 seq
        m: f32 = matmul(a, h) acc f32 seq
        n: f32 = matmul(transpose(h), h) acc f32 seq
        z: f32 = a * 2
    """,
    at=("y",),
    sizes={"M": 1, "K": 1, "N": 1},
    rewrite=rewrite,
    parameters=(
        Parameter(
            "mode",
            "choice",
            "`rna` (to nearest, ties away), `rne` (ties to even) or `rtz` (cut off)",
            "rna",
            ("rna", "rne", "rtz"),
        ),
    ),
    loses=("domain",),
    examples=(
        breaks(a=1024.5, b=1, h=1, shows="y: 0x44801000 -> 0x44802000"),  # a tie: 1025
        breaks({"mode": "rne"}, a=1024.5, b=1, h=1),  # 1024
        breaks({"mode": "rtz"}, a=1024.5, b=1, h=1, at=("m",)),
        holds(a=1025, b=3, h=1),
        rejects(NEED, a=1, b=1, h=1, at=("n",)),
        rejects(NO_PRODUCT, a=1, b=1, h=1, at=("z",)),
    ),
    title=lambda site: f"the operands of `{site.name}` are rounded to tf32 ({site.text('mode')})",
)
