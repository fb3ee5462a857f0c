"""FUS117 widen-weight: a weight is cast to a wider format in front of the kernel that reads it.

Why it matters: the cast is exact, and the kernel is another one. A library picks the format in
which it computes from the formats of its operands, so what it rounded to bf16 inside is now kept in
f32. The programs look the same, and the call sites too.
Legal: as a change of rounding; bit for bit only in kernels whose inner format is stated.
Error: a rounding moves from the weight's format to the wider one: relative error at most u of the
weight's format (2^-8 of bf16) in each value inside.
Source: Higham, Accuracy and Stability of Numerical Algorithms, 2nd ed., sec. 2.2; vllm#53203.
See also: FUS124, where a region changes its format.
"""

from lastbit.change import Change
from lastbit.graph import Node, Round
from lastbit.patterns import past_views, some, unrounded
from lastbit.patterns.casts import NO_WIDER, weight_at, wider_weight
from lastbit.rule import Edits, Parameter, Require, Rewrite, Site, breaks, holds, rejects

NEED = "a value inside the program is rounded to the format of the weight that it reads"


def rewrite(site: Site) -> Edits:
    """Round what reads the weight to `format`; what the program returns stays."""
    weight, wide = weight_at(site), wider_weight(site)
    edits: dict[str, Node] = {}
    for name in site.program.consumers(site.name):
        root = site.definition(name)
        last = past_views(root)
        inside = name not in site.program.outputs
        if inside and isinstance(last, Round) and last.rounding.format == weight.format:
            edits[name] = Round(unrounded(root), wide)
    return some(edits, NEED)


RULE = Rewrite(
    code="FUS117",
    name="widen-weight",
    claim=Change.ROUNDING,
    prose=__doc__,
    graph="""
        x: bf16[N]
        w: bf16[N]
        b: bf16[N]
        p: bf16 = x * w
        y: bf16 = p + b
        e: e4m3fn[N]
        q: e4m3fn = x * e saturate
        z: bf16 = q * 2
    """,
    at=("w",),
    sizes={"N": 1},
    rewrite=rewrite,
    parameters=(Parameter("format", "format", "the format of the weight", "f32"),),
    requires=(
        Require(
            "the weight's format is no grid",
            lambda site: not weight_at(site).format.is_grid,
            lambda site: weight_at(site).format.short,
        ),
    ),
    loses=("domain",),
    examples=(
        breaks(
            x="0x1.02p+0", w="0x1.02p+0", b="0x1p-8", e=0, shows="y: 0x3f82 -> 0x3f83"
        ),  # 2**-14 lost above a tie
        breaks(x="0x1.6ap+127", w="0x1.6ap+0", b="-0x1p+127", e=0),  # inf in bf16, not in f32
        holds(x=3, w=5, b=1, e=0),  # the product is a bf16
        rejects("the weight's format is no grid", x=1, w=1, b=1, e=1, at=("e",)),
        rejects(NO_WIDER, {"format": "e5m2"}, x=1, w=1, b=1, e=1),
        rejects(NEED, x=1, w=1, b=1, e=1, at=("b",)),
    ),
    title=lambda site: (
        f"what reads `{site.name}` is held in {site.text('format')} "
        f"instead of {weight_at(site).format.short}"
    ),
)
