"""FUS120 merge-lora: a low-rank branch is added into the weight, which is rounded once more.

Why it matters: x W + s (x A) B costs two small products; W + s A B costs none. Stored in bf16 the
merged weight loses every change below half an ulp of W: changes with standard deviation 1e-3 leave
78 of 100 standard normal weights as they were, and unmerging does not bring W back.
Legal: as a change of rounding; added in f32 and rounded once. Never where the branch is to be taken
out again.
Error: half an ulp of `format` in each merged weight, where the branch kept its own digits.
Source: Hu et al., "LoRA: Low-Rank Adaptation of Large Language Models" (arXiv 2106.09685), section
4.1; peft#1388, torchtune#1101.
"""

from lastbit.change import Change
from lastbit.graph import Const, Map, Node, Round, apply, const
from lastbit.patterns import NO_GRID_FORMAT, find, is_map, replace
from lastbit.patterns.products import Product, product_behind
from lastbit.rounding import Rounding
from lastbit.rule import Edits, MismatchError, Parameter, Rewrite, Site, breaks, holds, rejects

NEED = "the value is x W + s (x A) B"


def rewrite(site: Site) -> Edits:
    """Multiply by the merged weight, rounded to `format`."""
    for node in find(site.node, Map, lambda node: is_map(node, "add")):
        for kept, branch in (node.xs, node.xs[::-1]):
            main, (up, scale) = product_behind(site, kept), _scaled(site, branch)
            down = None if up is None else product_behind(site, up.a)
            if main is None or up is None or down is None or down.a.key != main.a.key:
                continue
            delta = apply("mul", up.of(down.b, up.b), scale)
            merged = Round(apply("add", main.b, delta), Rounding.of(site.text("format")))
            return {site.name: replace(site.node, node, main.of(main.a, merged))}
    raise MismatchError(NEED)


def _scaled(site: Site, node: Node) -> tuple[Product | None, Node]:
    """Return a product behind a node and the number that scales it."""
    if isinstance(node, Map) and node.fn == "mul":
        for read, scale in (node.xs, node.xs[::-1]):
            product = product_behind(site, read)
            if product is not None and isinstance(scale, Const):
                return product, scale
    return product_behind(site, node), const(1)


RULE = Rewrite(
    code="FUS120",
    name="merge-lora",
    claim=Change.ROUNDING,
    prose=__doc__,
    graph="""
        x: bf16[M, K]
        w: bf16[K, N]
        a: bf16[K, R]
        b: bf16[R, N]
        h: bf16 = matmul(x, a) acc f32 seq
        d: f32 = matmul(h, b) acc f32 seq
        c: f32 = matmul(x, w) acc f32 seq
        y: bf16 = c + d * 0.5
        z: bf16 = c + 1
    """,
    at=("y",),
    sizes={"M": 1, "K": 1, "N": 1, "R": 1},
    rewrite=rewrite,
    parameters=(Parameter("format", "format", "the format of the merged weight", "bf16"),),
    requires=(NO_GRID_FORMAT,),
    loses=("domain",),
    examples=(
        breaks(
            x=129, w=1, a=1, b="0x1p-7", shows="y: 0x4302 -> 0x4301"
        ),  # the weight stays 1, and the branch is lost
        holds(x=3, w=1, a=1, b="0x1p-6"),  # 1 + 2**-7 is a bf16
        rejects(NO_GRID_FORMAT.text, {"format": "e4m3fn"}, x=1, w=1, a=1, b=1),
        rejects(NEED, x=1, w=1, a=1, b=1, at=("z",)),
    ),
    title=lambda site: (
        f"the low-rank branch of `{site.name}` is merged into the weight, rounded to "
        f"{site.text('format')}"
    ),
)
