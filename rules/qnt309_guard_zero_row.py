"""QNT309 guard-zero-row: a row of zeros gets the scale 1.

Why it matters: the scale of a row of zeros is 0, and 0 / 0 is NaN, in every element of that row and
in all that reads it. Padding, masked experts and cleared buffers are such rows. With a guard all
other rows keep their bits. (A floor above the smallest normal number changes small rows too.)
Legal: always.
Error: exact for rows with a nonzero element.
Source: pytorch/ao#4713 and lmdeploy#3652 (NaN from rows of zeros).
See also: QNT351, which finds scales without a guard; QNT323 for the two kinds of floor.
"""

from lastbit.change import Change
from lastbit.graph import apply
from lastbit.patterns.quantized import NO_MAXIMUM, ROW_SCALED, grid_at, quantized_at
from lastbit.rule import Edits, Rewrite, Site, breaks, holds, rejects


def rewrite(site: Site) -> Edits:
    """Take the scale where it is not 0, else 1."""
    found = quantized_at(site)
    zero = apply("equal", found.formula, 0)
    return found.rescaled(apply("select", zero, 1, found.formula))


RULE = Rewrite(
    code="QNT309",
    name="guard-zero-row",
    claim=Change.BITWISE,
    prose=__doc__,
    graph=ROW_SCALED + "\nd: e4m3fn = t / 2 saturate\n",
    at=("q",),
    sizes={"M": 1, "K": 2, "N": 1},
    rewrite=rewrite,
    examples=(
        breaks(t=[[0, 0]], w=[[1], [1]], shows="y: 0x7fc0 -> 0x0000"),  # 0 in place of NaN
        holds(t=[[1, 10]], w=[[1], [1]]),
        rejects(NO_MAXIMUM, at=("d",), t=[[1, 10]], w=[[1], [1]]),
    ),
    loses=("domain",),
    title=lambda site: f"a row of zeros in `{grid_at(site).name}` gets the scale 1",
)
