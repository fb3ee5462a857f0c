"""FUS122 exp2-for-exp: an exponential becomes a power of two, its argument times log2(e).

Why it matters: GPUs have an instruction for 2^x alone, and flash kernels fold log2(e) into the
scale of the scores, so that no product is left over. The product is rounded, and an absolute error
in the exponent is a relative one in the result: the larger |x|, the more bits are wrong.
Legal: as a change of rounding, for arguments that the maximum of a row has made small; the factor
multiplies the finished dot product.
Error: about |x| (2 u + u^2) relative, for u of the product's format, from the rounded constant and
the rounded product; nearly 15 ulp of f32 were seen for |x| < 18.
Source: Muller, Elementary Functions, 3rd ed., ch. 11 (range reduction); Dao, "FlashAttention-2"
(arXiv 2307.08691); xformers#384, jax#25984.
"""

from lastbit.change import Change
from lastbit.graph import Const, Map, Node, Round, apply, const
from lastbit.patterns import NO_GRID_FORMAT, find, is_map, only, replace
from lastbit.rounding import Rounding
from lastbit.rule import Edits, Parameter, Rewrite, Site, breaks, holds, rejects

NEED = "the value holds one exponential"


def rewrite(site: Site) -> Edits:
    """Write exp2 of the rounded product; a constant factor of the argument joins log2(e)."""
    power = only(find(site.node, Map, lambda node: is_map(node, "exp")), NEED)
    rounding = Rounding.of(site.text("format"))
    x, factor = _factored(power.xs[0])
    scaled = Round(apply("mul", x, Round(factor, rounding)), rounding)
    return {site.name: replace(site.node, power, apply("exp2", scaled))}


def _factored(x: Node) -> tuple[Node, Node]:
    """Return the argument without its constant factor, and log2(e) times that factor."""
    log2e = const("log2e")
    if isinstance(x, Map) and x.fn == "mul":
        for rest, factor in (x.xs, x.xs[::-1]):
            if isinstance(factor, Const):
                return rest, apply("mul", factor, log2e)
    return x, log2e


RULE = Rewrite(
    code="FUS122",
    name="exp2-for-exp",
    claim=Change.ROUNDING,
    prose=__doc__,
    graph="""
        x: f32[N]
        y: f32 = exp(x)
        s: f32 = exp(x * 0.1)              # 0.1 log2(e) is one constant
        z: f32 = exp2(x)
    """,
    at=("y",),
    sizes={"N": 1},
    rewrite=rewrite,
    parameters=(Parameter("format", "format", "the format of the product", "f32"),),
    requires=(NO_GRID_FORMAT,),
    loses=("domain",),
    examples=(
        breaks(x=-17, shows="y: 0x3331cf19 -> 0x3331cf17"),
        breaks(x=50, at=("s",)),
        breaks({"format": "bf16"}, x=88.5),  # the exponent becomes 128, and 2^128 is inf
        holds(x=0),
        rejects(NO_GRID_FORMAT.text, {"format": "e4m3fn"}, x=1),
        rejects(NEED, x=1, at=("z",)),
    ),
    title=lambda site: (
        f"`{site.name}` computes 2^(x log2(e)) for e^x, the product rounded to "
        f"{site.text('format')}"
    ),
)
