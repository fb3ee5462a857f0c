"""QNT325 round-stochastically: a conversion to a grid rounds up or down by chance.

Why it matters: in training with 4 and 8 bits, gradients are rounded stochastically, so that small
ones survive in the mean. The result is a function of value and seed, and reproducible only where
seed and the order of draws are part of the program: another launch shape draws other numbers. (Here
a draw depends on seed and value alone.)
Legal: where seed and draws are part of the program.
Error: below one ulp of the grid, in place of half an ulp; 0 in the mean.
Source: Connolly, Higham and Mary, "Stochastic rounding and its probabilistic backward error
analysis" (SIAM J. Sci. Comput. 43(1), 2021); TransformerEngine#3045.
"""

import dataclasses

from lastbit.change import Change
from lastbit.graph import Round
from lastbit.patterns.quantized import NO_GRID, grid_at
from lastbit.rounding import Mode
from lastbit.rule import Edits, Parameter, Rewrite, Site, breaks, holds, rejects


def rewrite(site: Site) -> Edits:
    """Round by the draws of `seed`."""
    grid = grid_at(site)
    rounding = dataclasses.replace(
        grid.node.rounding, mode=Mode.STOCHASTIC, seed=site.integer("seed")
    )
    return grid.replaced(Round(grid.node.x, rounding))


RULE = Rewrite(
    code="QNT325",
    name="round-stochastically",
    claim=Change.GRID,
    prose=__doc__,
    graph="""
        x: f32[N]
        s: f32[N]
        q: e2m1 = x / s saturate
        n: f32 = x * s
    """,
    at=("q",),
    sizes={"N": 1},
    rewrite=rewrite,
    parameters=(Parameter("seed", "count", "selects the draws", 1),),
    examples=(
        breaks(x=(1.25, 1.375, 4.5, 5.5), s=1, shows="q[0]: 0x2 -> 0x3"),
        holds(x=(1, 1.5, 4, 6), s=1),  # on the grid
        rejects(NO_GRID, at=("n",), x=1, s=1),
    ),
    title=lambda site: (
        f"`{grid_at(site).name}` is rounded stochastically with the seed {site.integer('seed')}"
    ),
    loses=("domain",),
)
