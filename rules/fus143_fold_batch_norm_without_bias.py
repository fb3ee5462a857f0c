"""FUS143 fold-batch-norm-without-bias: a batch norm is folded, and the product's own bias is lost.

Why it matters: most layers in front of a batch norm have no bias, since the norm subtracts it
again, so the fold is written and tested without one. Where there is a bias (or a factor beside it,
as in a Gemm) the folded layer computes another function: each column is off by b * scale.
Legal: where the product has no bias.
Error: |b * scale| in every element of a column, in any format.
Source: Jacob et al., "Quantization and Training of Neural Networks for Efficient
Integer-Arithmetic-Only Inference" (arXiv 1712.05877), section 3.2; onnxscript#3027, where outputs
were off by 4.69.
"""

from lastbit.change import Change
from lastbit.patterns.batch_norm import FOLDABLE, NEED, batch_norm_at
from lastbit.rounding import Rounding
from lastbit.rule import Edits, MismatchError, Parameter, Rewrite, Site, breaks, holds, rejects

NO_BIAS = "the product has a bias"


def rewrite(site: Site) -> Edits:
    """Scale the columns of the weights, and fold only mean and shift into the bias."""
    found = batch_norm_at(site)
    if found.bias is None:
        raise MismatchError(NO_BIAS)
    return found.folded(None, Rounding.of(site.text("format")))


RULE = Rewrite(
    code="FUS143",
    name="fold-batch-norm-without-bias",
    claim=Change.MATH,
    prose=__doc__,
    graph=FOLDABLE
    + """
        p: f32 = matmul(x, w) acc f32 seq
        r: f32 = (p - mean) * k + shift
        z: f32 = c * k + shift
    """,
    at=("y",),
    sizes={"M": 1, "K": 1, "N": 1},
    rewrite=rewrite,
    parameters=(Parameter("format", "format", "the format of the new weights and bias", "f32"),),
    loses=("domain",),
    examples=(
        breaks(
            x=3, w=5, b=2, mean=1, k=4, shift=7, shows="y: 0x428e0000 -> 0x427c0000"
        ),  # 63 in place of 71
        holds(x=3, w=5, b=0, mean=1, k=4, shift=7),
        rejects(NO_BIAS, x=1, w=1, b=1, mean=1, k=1, shift=1, at=("r",)),
        rejects(NEED, x=1, w=1, b=1, mean=1, k=1, shift=1, at=("z",)),
    ),
    title=lambda site: (
        f"the batch norm in `{site.name}` is folded into the weights, without the product's bias"
    ),
)
