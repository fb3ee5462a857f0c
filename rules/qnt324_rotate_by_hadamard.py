"""QNT324 rotate-by-hadamard: a row and the weights are transformed before the row is quantized.

Why it matters: a Hadamard matrix H of ones and minus ones spreads outliers over a row, so that
fewer bits suffice (QuaRot, and the random transform of 4-bit training). Over the reals H H^T = n,
so x H (H^T w) / n is the same product; every code is another one. A transform that only one of the
two operands went through is another function.
Legal: where both operands go through it, and both sides state the blocks.
Error: half an ulp of the grid at amax(x H) / n^0.5 in place of amax(x); the roundings of w H.
Source: Ashkboos et al., QuaRot, arXiv 2404.00456, section 3; TransformerEngine#3045.
"""

from lastbit.change import Change
from lastbit.graph import Reduce, Round, apply, native_rounding
from lastbit.patterns import replace
from lastbit.patterns.quantized import NO_MAXIMUM, ROW_SCALED, grid_at, quantized_at, row_length
from lastbit.patterns.scales import hadamard, source_of
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

NEED = "every reader of the quantized values sums them"
EVEN = "2^stages divides K"


def rewrite(site: Site) -> Edits:
    """Transform what is quantized, and what its codes are multiplied by."""
    found, stages = quantized_at(site), site.integer("stages")
    row = hadamard(found.numerator, found.axis, stages)
    formula = found.scaled_by(Reduce("max", apply("abs", row), found.amax.axis))
    edits = dict(found.rescaled(formula))
    scale = found.scale if native_rounding(found.formula) else formula
    edits |= found.replaced(Round(apply("div", row, scale), found.node.rounding))
    for reader in found.readers:
        total = found.product_in(reader)
        codes, other = found.operands(total)
        axis = total.axis - len(total.x.shape)
        if not found.named or source_of(codes, axis)[1] != found.axis:
            raise MismatchError(NEED)
        terms = apply("mul", codes, hadamard(other, axis, stages))
        new = Reduce("sum", terms, total.axis, total.schedule, total.acc)
        edits[reader] = replace(edits[reader], total, apply("div", new, 2**stages))
    return edits


RULE = Rewrite(
    code="QNT324",
    name="rotate-by-hadamard",
    claim=Change.GRID,
    prose=__doc__,
    graph=ROW_SCALED
    + """
        d: e4m3fn = t / 2 saturate
        r: f32 = amax(t, axis=-1) / 448
        c: e4m3fn = t / r saturate
        z: f32 = c * r
    """,
    at=("q",),
    sizes={"M": 1, "K": 2, "N": 1},
    rewrite=rewrite,
    parameters=(Parameter("stages", "count", "log2 of the length of a block that is transformed"),),
    requires=(
        Require(
            EVEN,
            lambda site: row_length(site) % 2 ** site.integer("stages") == 0,
            lambda site: f"K={row_length(site)}, stages={site.integer('stages')}",
        ),
    ),
    examples=(
        breaks(
            {"stages": 1}, t=[[1, 10]], w=[[1], [0]], shows="y: 0x3f7b -> 0x3f97"
        ),  # from 11 and -9, not from 1 and 10
        holds({"stages": 1}, t=[[7, 0]], w=[[1], [1]]),  # 7 and 7 end the grid
        rejects(EVEN, {"stages": 2}, t=[[1, 10]], w=[[1], [0]]),
        rejects(NO_MAXIMUM, {"stages": 1}, at=("d",), t=[[1, 10]], w=[[1], [0]]),
        rejects(NEED, {"stages": 1}, at=("c",), t=[[1, 10]], w=[[1], [0]]),
    ),
    title=lambda site: (
        f"blocks of {2 ** site.integer('stages')} elements are transformed before "
        f"`{grid_at(site).name}` is quantized"
    ),
    loses=("domain",),
)
