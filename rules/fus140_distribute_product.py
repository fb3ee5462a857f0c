"""FUS140 distribute-product: x (a + b) becomes x a + x b.

Why it matters: graph optimisers use the distributive law to share a product, or to make two that
run side by side. It holds for real numbers. In floating point the sum is rounded first on one side,
and each product on the other; where a and b nearly cancel, x a + x b keeps nothing of what a + b
had exactly. In f32, 45 of 100 triples of numbers give other bits.
Legal: as a change of rounding; the law is one of real numbers.
Error: about 2 u |x| |a + b| on one side, and u |x| (|a| + |b| + |a + b|) on the other, besides the
sums over K.
Source: Higham, Accuracy and Stability of Numerical Algorithms, 2nd ed., sec. 3.1; Jia et al.,
"TASO: Optimizing Deep Learning Computation with Automatic Generation of Graph Substitutions" (SOSP
2019), whose axioms are those of the reals.
See also: FUS141, the associative law.
"""

from lastbit.change import Change
from lastbit.graph import Node, apply, native_rounding
from lastbit.patterns import is_map, replace, same_format, unrounded
from lastbit.patterns.online_softmax import rounded
from lastbit.patterns.products import defined, product_in
from lastbit.rule import Edits, MismatchError, Rewrite, Site, breaks, holds, rejects

NEED = "the value is a product with a sum of two matrices"


def rewrite(site: Site) -> Edits:
    """Add two products, each rounded as the value is."""
    product = product_in(site.node, NEED)
    own = native_rounding(site.node)
    for i, operand in enumerate((product.a, product.b)):
        total = unrounded(defined(site, operand))
        if is_map(total, "add") and all(x.shape == total.shape for x in total.args):
            parts: list[Node] = [
                product.of(x, product.b) if i == 0 else product.of(product.a, x) for x in total.args
            ]
            new = apply("add", *(rounded(part, () if own is None else (own,)) for part in parts))
            return {site.name: same_format(site.node, replace(site.node, product.node, new))}
    raise MismatchError(NEED)


RULE = Rewrite(
    code="FUS140",
    name="distribute-product",
    claim=Change.ROUNDING,
    prose=__doc__,
    graph="""
        x: f32[M, K]
        a: f32[K, N]
        b: f32[K, N]
        w: f32 = a + b
        y: f32 = matmul(x, w) acc f32 seq
        z: f32 = matmul(x, a) acc f32 seq
    """,
    at=("y",),
    sizes={"M": 1, "K": 1, "N": 1},
    rewrite=rewrite,
    loses=("domain",),
    examples=(
        breaks(
            x=3, a=1, b="0x1p-24", shows="y: 0x40400000 -> 0x40400001"
        ),  # a + b ties to 1; 3 b is large enough to count
        breaks(x=3, a="0x1.000002p+0", b=-1),  # 3 * 2^-23 against 2^-21: 3 a is rounded
        breaks(x=0.5, a="0x1p+127", b="0x1p+127"),  # a + b overflows, a / 2 + b / 2 does not
        holds(x=3, a=5, b=7),
        rejects(NEED, x=1, a=1, b=1, at=("z",)),
    ),
    title=lambda site: f"`{site.name}` is the sum of two products instead of one with a sum",
)
