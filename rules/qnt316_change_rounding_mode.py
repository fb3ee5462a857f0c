"""QNT316 change-rounding-mode: a conversion to a grid rounds in another direction.

Why it matters: a cast that truncates, a `round` that takes ties away from zero, or `>=` in place of
`>` at a midpoint give other codes than nearest even. Random scales hide the ties; scales like 2^-6
make 12 of 100 bf16 inputs land on one. In float16, 0.0500183 / 0.0999756 is 0.5003: 1, and 0 where
the quotient is truncated.
Legal: where both sides state the mode.
Error: a whole code for truncation; for another tie rule a code for inputs halfway between two.
Source: IEEE 754-2019, clause 4.3; onnxruntime#32452 (truncation), tt-metal#56525 (ties), aiter#3992
(`>=` at every midpoint of e2m1: 4 of 7 ties).
"""

import dataclasses

from lastbit.change import Change
from lastbit.graph import Round
from lastbit.patterns.quantized import NO_GRID, grid_at
from lastbit.rounding import Mode
from lastbit.rule import Edits, Parameter, Rewrite, Site, breaks, holds, rejects

MODES = ("rna", "rtz", "rup", "rdn", "rne")
MIDPOINTS = (0.25, 0.75, 1.25, 1.75, 2.5, 3.5, 5)  # of e2m1
X, S = "0x1.99cp-5", "0x1.998p-4"


def rewrite(site: Site) -> Edits:
    """Round by `mode`."""
    grid = grid_at(site)
    rounding = dataclasses.replace(grid.node.rounding, mode=Mode(site.text("mode")))
    return grid.replaced(Round(grid.node.x, rounding))


RULE = Rewrite(
    code="QNT316",
    name="change-rounding-mode",
    claim=Change.GRID,
    prose=__doc__,
    graph="""
        x: f16[N]
        s: f16[N]
        q: int8 = x / s saturate
        e: e2m1 = x * s saturate
        n: f16 = x * s
    """,
    at=("q",),
    sizes={"N": 1},
    rewrite=rewrite,
    parameters=(
        Parameter(
            "mode",
            "choice",
            "`rna` (nearest, ties away), `rtz` (toward zero), `rup`, `rdn` or `rne`",
            "rna",
            MODES,
        ),
    ),
    examples=(
        breaks({"mode": "rtz"}, x=X, s=S, shows="q: 0x01 -> 0x00"),  # 0.5003: 0 in place of 1
        breaks(x=(1.5, 2.5, 3.5), s=1),  # 2 3 4 in place of 2 2 4
        breaks(at=("e",), x=MIDPOINTS, s=1),  # .5 1 1.5 2 3 4 6 in place of 0 1 1 2 2 4 4
        holds(x=(1.25, 2.75), s=1),  # no ties
        holds(at=("e",), x=(0.5, 1, 1.5, 2, 3, 4, 6), s=1),  # on the grid
        rejects(NO_GRID, at=("n",), x=1, s=1),
    ),
    title=lambda site: f"`{grid_at(site).name}` is rounded by the mode {site.text('mode')}",
    loses=("domain",),
)
