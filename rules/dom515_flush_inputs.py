"""DOM515 flush-inputs: subnormal operands are read as zero (DAZ).

Why it matters: a mode of its own, beside the flushing of results (DOM503): a processor thread that
a library has switched to "denormals are zero" computes other bits than its neighbour, on the same
program. x / x, a comparison with 0 and the logarithm of a tiny number see a zero that is none.
Legal: where the mode is declared, or no operand is subnormal.
Error: exact for operands that are zero or normal; else all of the operand.
Source: Intel 64 and IA-32 Architectures Software Developer's Manual, volume 1, section 10.2.3.4
(denormals-are-zeros); PTX ISA, `.ftz`, which flushes operands as well; pytorch#125557.
"""

from lastbit.change import Change
from lastbit.graph import Input, Round, substitute
from lastbit.patterns import find
from lastbit.rounding import Rounding
from lastbit.rule import Edits, MismatchError, Rewrite, Site, breaks, holds, rejects

NEED = "the value reads values of a format that has subnormals and is no grid"


def rewrite(site: Site) -> Edits:
    """Flush each value that the definition reads."""

    def flushes(leaf: Input) -> bool:
        return leaf.format.kind == "float" and not leaf.format.is_grid

    flushed = {
        leaf.key: Round(leaf, Rounding.of(leaf.format, subnormals="flush"))
        for leaf in find(site.node, Input, flushes)
    }
    if not flushed:
        raise MismatchError(NEED)
    return {site.name: substitute([site.node], flushed)[site.node.key]}


RULE = Rewrite(
    code="DOM515",
    name="flush-inputs",
    claim=Change.BITWISE,
    prose=__doc__,
    graph="""
        x: f32[N]
        q: e4m3fn[N]
        y: f32 = x * 2
        c: f32 = select(x == 0, 1, 2)
        z: f32 = q * 2
    """,
    at=("y",),
    sizes={"N": 1},
    rewrite=rewrite,
    examples=(
        breaks(
            x="0x1p-127", q=1, shows="y: 0x00800000 -> 0x00000000"
        ),  # 0 in place of 2^-126, which is normal
        breaks(at=("c",), x="0x1p-149", q=1),
        holds(x="0x1p-126", q=1),
        rejects(NEED, at=("z",), x=1, q=1),
    ),
    loses=("domain",),
    title=lambda site: f"subnormal operands of `{site.name}` are read as zero",
)
