"""FUS117 widen-weight: a weight is cast to a wider format in front of the kernel that reads it.

Why it matters: the cast is exact, and the kernel is another one. A library picks the format in
which it computes from the formats of its operands, so what it rounded to bf16 inside is now kept
in f32. The programs look the same, and the call sites too.
Error: a rounding moves from the weight's format to the wider one: relative error at most u of
the weight's format (2^-8 of bf16) in each value inside.
Source: Higham, Accuracy and Stability of Numerical Algorithms, 2nd ed., sec. 2.2; vllm#53203.
"""

from lastbit.change import Change
from lastbit.graph import Input, Node, Round, native_rounding
from lastbit.patterns import past_views, unrounded
from lastbit.rounding import Rounding
from lastbit.rule import (
    Edits,
    MismatchError,
    Parameter,
    Require,
    Rewrite,
    Site,
    breaks,
    holds,
    rejects,
)

NEED = "a value inside the program is rounded to the format of the weight that it reads"
WIDER = "the format holds every value of the weight"


def _weight(site: Site) -> Rounding:
    rounding = native_rounding(site.node)
    if rounding is None or not isinstance(site.ref(site.name), Input):
        raise MismatchError("the weight is rounded")
    return rounding


def rewrite(site: Site) -> Edits:
    """Round what reads the weight to `format`; what the program returns stays."""
    weight, wide = _weight(site), Rounding.of(site.text("format"))
    one, other = weight.format, wide.format
    if other.kind != "float" or other.precision < one.precision or other.emin > one.emin:
        raise MismatchError(WIDER)
    edits: dict[str, Node] = {}
    for name in site.program.consumers(site.name):
        root = site.definition(name)
        last = past_views(root)
        if name in site.program.outputs or not isinstance(last, Round):
            continue
        if last.rounding.format == weight.format:
            edits[name] = Round(unrounded(root), wide)
    if not edits:
        raise MismatchError(NEED)
    return edits


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
            lambda site: not _weight(site).format.is_grid,
            lambda site: _weight(site).format.short,
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
        rejects(WIDER, {"format": "e5m2"}, x=1, w=1, b=1, e=1),
        rejects(NEED, x=1, w=1, b=1, e=1, at=("b",)),
    ),
    title=lambda site: (
        f"what reads `{site.name}` is held in {site.text('format')} "
        f"instead of {_weight(site).format.short}"
    ),
)
