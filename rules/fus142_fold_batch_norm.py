"""FUS142 fold-batch-norm: the batch norm behind a product is folded into weights and bias.

Why it matters: at inference the statistics are constants, so the norm is a scale and a shift for
each column, and both go into the product that stands before it. The folded weights are rounded
again, so 84 of 100 f32 outputs change, though none by much. The bias must be folded too: it becomes
(b - mean) * scale + shift.
Legal: as a change of rounding, for constant statistics, with the bias folded too.
Error: u of the weights' format for each folded weight, and the norm's own roundings disappear.
Source: Jacob et al., "Quantization and Training of Neural Networks for Efficient
Integer-Arithmetic-Only Inference" (arXiv 1712.05877), section 3.2 (folding); onnxscript#3027.
See also: FUS143, where the bias is lost.
"""

from lastbit.change import Change
from lastbit.patterns import NO_GRID_FORMAT
from lastbit.patterns.batch_norm import FOLDABLE, NEED, batch_norm_at
from lastbit.rounding import Rounding
from lastbit.rule import Edits, Parameter, Rewrite, Site, breaks, holds, rejects


def rewrite(site: Site) -> Edits:
    """Scale the columns of the weights, and fold mean, bias and shift into one bias."""
    found = batch_norm_at(site)
    return found.folded(found.bias, Rounding.of(site.text("format")))


RULE = Rewrite(
    code="FUS142",
    name="fold-batch-norm",
    claim=Change.ROUNDING,
    prose=__doc__,
    graph=FOLDABLE + "\nz: f32 = c * k + shift\n",
    at=("y",),
    sizes={"M": 1, "K": 1, "N": 1},
    rewrite=rewrite,
    parameters=(Parameter("format", "format", "the format of the new weights and bias", "f32"),),
    requires=(NO_GRID_FORMAT,),
    loses=("domain",),
    examples=(
        breaks(
            x=3,
            w="0x1.000002p+0",
            b=0,
            mean=0,
            k="0x1.000002p+0",
            shift=0,
            shows="y: 0x40400004 -> 0x40400003",
        ),
        holds(x=3, w=5, b=2, mean=1, k=4, shift=7),
        rejects(NO_GRID_FORMAT.text, {"format": "e4m3fn"}, x=1, w=1, b=1, mean=1, k=1, shift=1),
        rejects(NEED, x=1, w=1, b=1, mean=1, k=1, shift=1, at=("z",)),
    ),
    title=lambda site: (
        f"the batch norm in `{site.name}` is folded into weights and bias, rounded to "
        f"{site.text('format')}"
    ),
)
