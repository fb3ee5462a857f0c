"""FUS127 concat-columns: products of one left operand become one product with joined weights.

Why it matters: query, key and value, or gate and up projection, read the same rows, so their
weights are put side by side and one kernel computes all columns. Each output element is still one
sum over K. What changes in practice is which kernel a library picks for the wider N; if its tree
over K is another one, that is change-schedule (RED209) on top.
Legal: always, as long as the tree over K does not follow N.
Error: exact as long as the tree over K stays.
Source: Wu et al., "Mirage: A Multi-Level Superoptimizer for Tensor Programs" (arXiv 2405.05751),
where such joins are found; vllm#54521, on kernels that follow the shape.
"""

from lastbit.change import Change
from lastbit.cost.placement import Placement
from lastbit.graph import Node, concat, take
from lastbit.patterns import replace
from lastbit.patterns.products import product_in
from lastbit.rule import Edits, MismatchError, Rewrite, Site, holds, rejects

NEED = "the site names several products of one left operand, each summed in the same way"


def rewrite(site: Site) -> Edits:
    """Take each product as columns of the joined one."""
    products = [product_in(site.definition(name), NEED) for name in site.at]
    first = products[0]
    if len(products) < 2 or any(p.of(first.a, first.b).key != first.node.key for p in products):
        raise MismatchError(NEED)
    if any(p.a.key != first.a.key for p in products):
        raise MismatchError(NEED)
    joined = first.of(first.a, concat((p.b for p in products), 1))
    edits: dict[str, Node] = {}
    start = 0
    for name, product in zip(site.at, products, strict=True):
        stop = start + product.node.shape[1]
        columns = take(joined, 1, start, stop)
        edits[name] = replace(site.definition(name), product.node, columns)
        start = stop
    return edits


RULE = Rewrite(
    code="FUS127",
    name="concat-columns",
    claim=Change.BITWISE,
    prose=__doc__,
    graph="""
        x: bf16[M, K]
        w1: bf16[K, N]
        w2: bf16[K, 2*N]
        q: bf16 = matmul(x, w1) acc f32 seq
        k: bf16 = matmul(x, w2) acc f32 seq
        p: bf16 = matmul(x, w2) acc f32 pairwise
        z: bf16 = q + 1
    """,
    at=("q", "k"),
    sizes={"M": 1, "K": 2, "N": 1},
    rewrite=rewrite,
    examples=(
        holds(x=[[1, 3]], w1=[[5], ["0x1p-9"]], w2=[[1, "0x1.02p0"], ["0x1p-9", 7]]),
        rejects(NEED, x=1, w1=1, w2=1, at=("q", "p")),  # another tree
        rejects(NEED, x=1, w1=1, w2=1, at=("q", "z")),
        rejects(NEED, x=1, w1=1, w2=1, at=("q",)),
    ),
    title=lambda site: (
        f"{', '.join(f'`{name}`' for name in site.at)} are columns of one product "
        "with joined weights"
    ),
    placement=True,
    places=lambda site: Placement(together=(frozenset(site.at),)),
)
