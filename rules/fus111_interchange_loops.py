"""FUS111 interchange-loops: the loop over the terms of a sum runs outside of the other loops.

Why it matters: from i, j, k to k, i, j, a matrix product adds outer products instead of taking dot
products. Each output element keeps its own accumulator and meets the same terms in the same order,
as long as the accumulator keeps its format between two visits (RED212 if it does not).
Legal: always, with an accumulator for each element that keeps its format.
Error: none; the same rounded operations run on the same operands.
Source: Golub and Van Loan, Matrix Computations, 4th ed., sec. 1.1 (the six loop orders).
"""

from lastbit.change import Change
from lastbit.graph import Reduce, reshape, transpose
from lastbit.patterns import sum_of
from lastbit.rule import Edits, Rewrite, Site, holds, rejects


def rewrite(site: Site) -> Edits:
    """Put the axis of the terms first."""
    total = sum_of(site)
    order = (total.axis, *(i for i in range(len(total.terms.shape)) if i != total.axis))
    terms = transpose(total.terms, order)
    new = Reduce("sum", terms, 0, total.schedule, total.acc)
    return {site.name: total.replaced(reshape(new, total.node.shape))}


RULE = Rewrite(
    code="FUS111",
    name="interchange-loops",
    claim=Change.BITWISE,
    prose=__doc__,
    graph="""
        a: bf16[M, K]
        w: bf16[K, N]
        y: f32 = matmul(a, w) acc f32 seq
        z: bf16 = silu(y)
        return y, z
    """,
    at=("y",),
    sizes={"M": 2, "K": 3, "N": 2},
    rewrite=rewrite,
    examples=(
        holds(a=(1, "0x1p-24", "0x1p-24", "0x1p-24", "0x1p-24", 1), w=1),  # order shows in the bits
        rejects("the value holds one sum", a=1, w=1, at=("z",)),
    ),
    title=lambda site: f"the loop over the terms of `{site.name}` runs outermost",
    placement=True,
)
