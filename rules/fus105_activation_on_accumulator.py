"""FUS105 activation-on-accumulator: an activation is applied to the accumulator after each block.

Why it matters: moved one loop too deep, the activation acts on every partial result, and each later
block is added to an activated one.
Legal: never: an activation has to follow the whole sum.
Error: not bounded by any number of ulp; another function is computed.
Source: Wu et al., "Mirage: A Multi-Level Superoptimizer for Tensor Programs" (arXiv 2405.05751),
whose verifier has to tell the two apart.
See also: FUS104, where each part is activated alone.
"""

import math

from lastbit.change import Change
from lastbit.graph import Node, Round, chunks, concat, reshape
from lastbit.patterns import BLOCK, same_format, sum_behind
from lastbit.rule import Edits, MismatchError, Rewrite, Site, breaks, holds, rejects


def rewrite(site: Site) -> Edits:
    """Unroll the loop over blocks: activate, then add the next block."""
    total, value_of = sum_behind(site)
    value: Node | None = None
    for block in chunks(total.terms, total.axis, site.integer("block")):
        terms = block
        if value is not None:
            running = reshape(Round(value, total.acc), total.node.shape)
            terms = concat((running, block), total.axis)
        value = value_of(total.over(terms))
        if math.prod(value.shape) != math.prod(total.node.shape):
            raise MismatchError("the value has one element for each sum")
    assert value is not None
    return {site.name: same_format(site.node, value)}


RULE = Rewrite(
    code="FUS105",
    name="activation-on-accumulator",
    claim=Change.MATH,
    prose=__doc__,
    graph="""
        a: bf16[M, K]
        w: bf16[K, N]
        c: bf16 = matmul(a, w) acc f32 seq
        y: bf16 = silu(c)
        d: bf16 = sum(a, axis=1) acc f32 seq
        z: bf16 = a + d
    """,
    at=("y",),
    sizes={"M": 1, "K": 2, "N": 1},
    rewrite=rewrite,
    parameters=(BLOCK,),
    examples=(
        breaks(
            {"block": 1}, a=(1, -1), w=1, shows="y: 0x0000 -> 0xbdef"
        ),  # 0 against SiLU(SiLU(1) - 1) = -0.1165
        holds({"block": 2}, a=(1, -1), w=1),  # one block: the activation comes last
        rejects("the value has one element for each sum", {"block": 1}, a=1, w=1, at=("z",)),
    ),
    loses=("domain",),
    title=lambda site: (
        f"`{site.name}` is computed on the running accumulator, every {site.integer('block')} terms"
    ),
)
