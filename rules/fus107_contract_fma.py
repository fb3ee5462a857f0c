"""FUS107 contract-fma: a product and the addition that follows are rounded once, not twice.

Why it matters: compilers contract a * b + c by default, on one target and not on another. With c =
-round(a * b) the result is the product's rounding error instead of 0.
Legal: where the language or a flag allows contraction; bit for bit if the product is exact. Never
for a product that is also used rounded (FUS131).
Error: one rounding less, at most u * |a * b|. Products that the format holds (of two bf16 values in
f32) keep their bits.
Source: IEEE 754-2019, clauses 5.4.1 (fusedMultiplyAdd) and 10.4 (what a language may contract);
pytorch#115435, where contraction broke a softmax.
See also: FUS131, which finds the contractions that do harm.
"""

from lastbit.change import Change
from lastbit.graph import Map, Node, Round
from lastbit.patterns import find, is_map, only, replace, some
from lastbit.rule import Edits, Rewrite, Site, breaks, holds, rejects

NEED = "the value is a rounded product that is added"


def rewrite(site: Site) -> Edits:
    """Take the rounding off the product where it is added."""
    node = site.node
    if isinstance(node, Round) and is_map(node.x, "mul"):
        readers = site.program.consumers(site.name)
        added = {
            reader: _contracted(site.definition(reader), site.ref(site.name), node.x)
            for reader in readers
        }
        edits = {reader: new for reader, new in added.items() if new is not None}
    else:
        product = only(
            find(node, Round, lambda inner: is_map(inner.x, "mul") and inner is not node), NEED
        )
        new = _contracted(node, product, product.x)
        edits = {} if new is None else {site.name: new}
    return some(edits, NEED)


def _contracted(root: Node, rounded: Node, product: Node) -> Node | None:
    """Return a definition in which sums read the product itself, or None if none reads it."""
    sums = find(root, Map, lambda m: is_map(m, "add", "sub") and rounded.key in _keys(m))
    for node in sums:
        xs = tuple(product if x.key == rounded.key else x for x in node.xs)
        root = replace(root, node, Map(node.fn, xs))
    return root if sums else None


def _keys(node: Map) -> list[bytes]:
    return [x.key for x in node.xs]


RULE = Rewrite(
    code="FUS107",
    name="contract-fma",
    claim=Change.ROUNDING,
    prose=__doc__,
    graph="""
        a: f32[N]
        b: f32[N]
        c: f32[N]
        p: f32 = a * b
        z: f32 = p + c
        r: f32 = round(a * b, f32) - c
    """,
    at=("p",),
    sizes={"N": 1},
    rewrite=rewrite,
    examples=(
        breaks(
            a="0x1.001p0", b="0x1.001p0", c="-0x1.002p0", shows="z: 0x00000000 -> 0x33800000"
        ),  # 0 against 2^-24
        breaks(a="0x1.001p0", b="0x1.001p0", c="0x1.002p0", at=("r",)),
        holds(a="0x1.82p0", b="0x1.06p-3", c="0x1.8p-20"),  # two bf16 values: an exact product
        rejects(NEED, a=1, b=1, c=1, at=("z",)),
    ),
    loses=("domain",),
    title=lambda site: f"the product `{site.name}` and the sum that reads it are rounded once",
)
