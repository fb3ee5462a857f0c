"""FUS128 swap-transposed-operands: A B is computed as the transpose of B^T A^T.

Why it matters: a library written for column-major matrices gets a row-major product by swapping the
operands. Each element is the same sum of the same products, so the bits stay if the sum runs in the
same tree. A library often picks another kernel for the swapped shape: on one CPU library only 71 of
100 elements kept their bits, and that is change-schedule (RED209), not this rule.
Legal: always, as long as the tree over K stays.
Error: exact as long as the tree over K stays.
Source: Golub and Van Loan, Matrix Computations, 4th ed., sec. 1.1; IEEE 754-2019, clause 5.4.1
(multiplication commutes).
"""

from lastbit.change import Change
from lastbit.graph import transpose
from lastbit.patterns import replace
from lastbit.patterns.products import NO_PRODUCT, product_in
from lastbit.rule import Edits, Rewrite, Site, holds, rejects


def rewrite(site: Site) -> Edits:
    """Write the transposed product of the transposed operands."""
    product = product_in(site.node)
    turned = product.of(transpose(product.b, (1, 0)), transpose(product.a, (1, 0)))
    return {site.name: replace(site.node, product.node, transpose(turned, (1, 0)))}


RULE = Rewrite(
    code="FUS128",
    name="swap-transposed-operands",
    claim=Change.BITWISE,
    prose=__doc__,
    graph="""
        a: bf16[M, K]
        b: bf16[K, N]
        y: f32 = matmul(a, b) acc f32 seq
        z: f32 = a * 2
    """,
    at=("y",),
    sizes={"M": 1, "K": 3, "N": 2},
    rewrite=rewrite,
    examples=(
        holds(a=[[1, "0x1p-24", "0x1p-24"]], b=1),
        holds(a=[[3, 5, 7]], b=[[1, 2], [3, 4], [5, 6]]),
        rejects(NO_PRODUCT, a=1, b=1, at=("z",)),
    ),
    title=lambda site: f"`{site.name}` is the transpose of a product of transposed operands",
    placement=True,
)
