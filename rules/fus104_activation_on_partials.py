"""FUS104 activation-on-partials: each partial sum is activated, then they are added.

Why it matters: an activation is not additive. SiLU(1) + SiLU(-1) is 0.4621, and SiLU(1 - 1) is 0. A
test on inputs near zero, where the activation is almost linear, does not notice.
Legal: for functions that are additive, f(a + b) = f(a) + f(b), such as a scale; never for an
activation, which has to follow the whole sum.
Error: not bounded by any number of ulp; another function is computed.
Source: Wu et al., "Mirage: A Multi-Level Superoptimizer for Tensor Programs" (arXiv 2405.05751),
whose verifier has to tell the two apart.
See also: FUS105, where the activation acts on the running sum.
"""

from lastbit.change import Change
from lastbit.graph import Round, chunks
from lastbit.patterns import BLOCK, add_up, same_format, sum_behind
from lastbit.rule import Edits, Rewrite, Site, breaks, holds, rejects


def rewrite(site: Site) -> Edits:
    """Compute the value from each block of terms alone, and add the results."""
    total, value_of = sum_behind(site)
    blocks = chunks(total.terms, total.axis, site.integer("block"))
    parts = [Round(value_of(total.over(block)), total.acc) for block in blocks]
    return {site.name: same_format(site.node, add_up(parts, total.acc))}


RULE = Rewrite(
    code="FUS104",
    name="activation-on-partials",
    claim=Change.MATH,
    prose=__doc__,
    graph="""
        a: bf16[M, K]
        w: bf16[K, N]
        c: bf16 = matmul(a, w) acc f32 seq
        y: bf16 = silu(c)
        z: bf16 = a * 2
    """,
    at=("y",),
    sizes={"M": 1, "K": 2, "N": 1},
    rewrite=rewrite,
    parameters=(BLOCK,),
    examples=(
        breaks({"block": 1}, a=(1, -1), w=1, shows="y: 0x0000 -> 0x3eed"),  # 0 against 0.4621
        holds({"block": 2}, a=(1, -1), w=1),  # one block: the whole sum
        holds({"block": 1}, a=(1, 0), w=1),  # SiLU(0) = 0 adds nothing
        rejects("the value is made from one sum", {"block": 1}, a=1, w=1, at=("z",)),
    ),
    loses=("domain",),
    title=lambda site: f"`{site.name}` adds its values for partial sums of {site.integer('block')}",
)
