"""FUS119 save-in-other-format: a value is kept for a later reader in another format.

Why it matters: a backward pass reads what the forward pass saved, or computes it again. If the copy
is stored in fewer digits, or the second computation skips a rounding that the first one did,
forward and backward work on two different numbers, and a gradient check or a bitwise comparison
with recomputation fails.
Legal: bit for bit where all readers see one rounding; else as a change of rounding.
Error: relative error at most u of either format in what that reader sees.
Source: Chen et al., "Training Deep Nets with Sublinear Memory Cost" (arXiv 1604.06174), on
recomputation; jax#22244, which rounds saved values so that both sides agree.
See also: FUS126 for a copy that is summed by another tree; FUS116 for all readers.
"""

from lastbit.change import Change
from lastbit.graph import Round
from lastbit.patterns import NO_GRID, NO_GRID_FORMAT, outer_rounding, reread, unrounded
from lastbit.rounding import Rounding
from lastbit.rule import Edits, Parameter, Rewrite, Site, breaks, holds, rejects

NEED = "the site names a value and the readers of its saved copy"


def rewrite(site: Site) -> Edits:
    """Give the readers the value rounded to `format`; all others read it as it was."""
    outer_rounding(site.node)
    copy = Round(unrounded(site.node), Rounding.of(site.text("format")))
    return reread(site, copy, NEED)


RULE = Rewrite(
    code="FUS119",
    name="save-in-other-format",
    claim=Change.ROUNDING,
    prose=__doc__,
    graph="""
        x: f32[N]
        g: f32[N]                          # the gradient of y
        h: bf16 = exp(x)
        y: f32 = h * 3                     # forward
        d: f32 = g * h                     # backward
        q: e4m3fn = x / 2 saturate
        e: f32 = g * q
    """,
    at=("h", "d"),
    sizes={"N": 1},
    rewrite=rewrite,
    parameters=(Parameter("format", "format", "the format of the copy", "f32"),),
    requires=(NO_GRID, NO_GRID_FORMAT),
    loses=("domain",),
    examples=(
        breaks(x=1, g=1, shows="d: 0x402e0000 -> 0x402df854"),  # e in f32 in place of e in bf16
        breaks({"format": "f16"}, x=1.5, g=1),
        holds(x=0, g=1),  # 1 in any format
        rejects(NO_GRID.text, x=1, g=1, at=("q", "e")),
        rejects(NO_GRID_FORMAT.text, {"format": "e5m2"}, x=1, g=1),
        rejects(NEED, x=1, g=1, at=("h", "e")),
        rejects("the value is rounded", x=1, g=1, at=("x", "h")),
    ),
    title=lambda site: (
        f"{', '.join(f'`{name}`' for name in site.at[1:])} reads `{site.name}` in "
        f"{site.text('format')}, and forward reads it in "
        f"{outer_rounding(site.node).rounding.format.short}"
    ),
)
