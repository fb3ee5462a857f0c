"""FUS141 associate-products: (A B) C becomes A (B C), or the reverse.

Why it matters: the cheaper order depends on the shapes, so planners pick it: x (A B) merges a
low-rank pair once, (x A) B keeps it apart. What lies between the two products is another matrix,
with other roundings, and its elements may be much larger than those of the result.
Legal: as a change of rounding; the law is one of real numbers.
Error: about gamma(K + N) |A| |B| |C| on either side, and u of the format of what lies between.
Source: Higham, Accuracy and Stability of Numerical Algorithms, 2nd ed., sec. 3.5 and 3.7 (products
of matrices); Jia et al., "TASO" (SOSP 2019), where this is an axiom.
"""

from lastbit.change import Change
from lastbit.graph import Node, native_rounding
from lastbit.patterns import replace
from lastbit.patterns.online_softmax import rounded
from lastbit.patterns.products import Product, defined, product_behind, product_in
from lastbit.rule import Edits, MismatchError, Rewrite, Site, breaks, holds, rejects

NEED = "the value is a product with a product"


def rewrite(site: Site) -> Edits:
    """Multiply the other pair first; sums over an axis and what lies between keep their formats."""
    outer = product_in(site.node, NEED)
    left, right = (product_behind(site, x) for x in (outer.a, outer.b))
    if left is not None:
        between = _like(site, outer.a, outer.of(left.b, outer.b))
        new = left.of(left.a, between)
    elif right is not None:
        between = _like(site, outer.b, outer.of(outer.a, right.a))
        new = right.of(between, right.b)
    else:
        raise MismatchError(NEED)
    return {site.name: replace(site.node, outer.node, _accumulated(outer, new))}


def _like(site: Site, old: Node, new: Node) -> Node:
    own = native_rounding(defined(site, old))
    return rounded(new, () if own is None else (own,))


def _accumulated(outer: Product, new: Node) -> Node:
    return rounded(new, () if outer.sum.acc is None else (outer.sum.acc,))


RULE = Rewrite(
    code="FUS141",
    name="associate-products",
    claim=Change.ROUNDING,
    prose=__doc__,
    graph="""
        a: bf16[M, K]
        b: bf16[K, N]
        c: bf16[N, P]
        h: bf16 = matmul(a, b) acc f32 seq
        y: bf16 = matmul(h, c) acc f32 seq
        v: bf16 = matmul(b, c) acc f32 seq
        r: bf16 = matmul(a, v) acc f32 seq
    """,
    at=("y",),
    sizes={"M": 1, "K": 1, "N": 1, "P": 1},
    rewrite=rewrite,
    loses=("domain",),
    examples=(
        breaks(a="0x1.02p+0", b="0x1.02p+0", c=3, shows="y: 0x4043 -> 0x4044"),  # 2^-14 more
        breaks(a=3, b="0x1.02p+0", c="0x1.02p+0", at=("r",)),
        breaks(a="0x1p+100", b="0x1p+100", c="0x1p-100"),  # A B overflows
        holds(a=3, b=5, c=7),
        rejects(NEED, a=1, b=1, c=1, at=("h",)),
    ),
    title=lambda site: f"`{site.name}` multiplies the other pair of its three matrices first",
)
