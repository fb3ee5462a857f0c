"""RED216 concat-along-k: two products that are added become one product with a longer K.

Why it matters: [W B] [x; A x] is W x + B (A x), so a low-rank adapter costs one launch. Its small
terms are then added one by one to an accumulator that the base product has filled. Where the
products were stored in a narrow format, those roundings disappear too.
Legal: as a reassociation where both products and their sum have the accumulator's format; else as a
change of rounding.
Error: gamma(K + R - 1) replaces gamma(max(K, R)), times the sum of absolute terms.
Source: Higham, Accuracy and Stability of Numerical Algorithms, 2nd ed., sec. 4.2; Wu et al.,
"Mirage" (arXiv 2405.05751), which finds this form of LoRA (arXiv 2106.09685).
"""

from lastbit.change import Change
from lastbit.graph import Map, Node, Reduce, View, concat, reshape
from lastbit.patterns import find, is_map, only, replace, same_format, unrounded, written_out
from lastbit.rule import Edits, MismatchError, Rewrite, Site, breaks, holds, rejects

NEED = "the value adds two sums along the same axis, in the same accumulator"


def _total_behind(site: Site, node: Node) -> Reduce:
    """Return the sum that a node reads, reshaped or not."""
    while (inner := unrounded(written_out(site, node))).key != node.key:
        node = inner
    node = node.xs[0] if isinstance(node, View) and node.kind == "reshape" else node
    if not (isinstance(node, Reduce) and node.op == "sum" and node.acc is not None):
        raise MismatchError(NEED)
    return node


def rewrite(site: Site) -> Edits:
    """Sum the terms of both, those of the first one first, by its schedule."""
    add = only(find(site.node, Map, lambda node: is_map(node, "add")), NEED)
    first, second = (_total_behind(site, node) for node in add.xs)
    other = [len(first.x.shape), first.axis, first.acc, first.shape]
    if other != [len(second.x.shape), second.axis, second.acc, second.shape]:
        raise MismatchError(NEED)
    terms = concat((first.x, second.x), first.axis)
    longer = Reduce("sum", terms, first.axis, first.schedule, first.acc)
    return {site.name: same_format(site.node, replace(site.node, add, reshape(longer, add.shape)))}


RULE = Rewrite(
    code="RED216",
    name="concat-along-k",
    claim=Change.ROUNDING,
    prose=__doc__,
    graph="""
        x: bf16[M, K]
        w: bf16[K, N]
        t: bf16[M, R]
        b: bf16[R, N]
        p: f32 = matmul(x, w) acc f32 seq
        q: f32 = matmul(t, b) acc f32 seq
        y: f32 = p + q
        h: bf16 = p
        g: bf16 = q
        z: bf16 = h + g
        e: f32 = p + 1
        n: f32 = matmul(x, w) + matmul(t, b) acc f32 seq
    """,
    at=("y",),
    sizes={"M": 1, "K": 1, "R": 2, "N": 1},
    rewrite=rewrite,
    examples=(
        breaks(
            x=2**24, w=1, t=1, b=1, shows="y: 0x4b800001 -> 0x4b800000"
        ),  # 2^24 + (1 + 1), against (2^24 + 1) + 1
        breaks(at=("z",), x="0x1.02p0", w="0x1.02p0", t="0x1p-9", b=1),  # 2^-14 decides a tie
        breaks(
            x="0x1p+64", w="0x1p+63", t="0x1p+64", b=[["0x1p+63"], ["-0x1p+63"]]
        ),  # inf on the way
        holds(x=1, w=1, t=1, b=1),  # every partial sum is exact
        holds(at=("n",), x=1, w=1, t=1, b=1),
        rejects(NEED, x=1, w=1, t=1, b=1, at=("e",)),
    ),
    loses=("domain",),
    title=lambda site: f"`{site.name}` adds the terms of both its sums in one accumulator",
)
