"""QNT333 factor-zero-point-out: a zero point leaves an integer matrix product as a correction.

Why it matters: integer units multiply codes as they are, and sum (q - z) w = sum q w - z sum w,
where the sum of the weights is known before. In integers nothing rounds, so every bit stays as long
as no sum overflows. In a float accumulator both sums round once they pass its digits, and their
difference may cancel: kernels that emulate the product in f32 are not covered.
Legal: in integer accumulators that no sum can overflow.
Error: exact in integers.
Source: Jacob et al., arXiv 1712.05877, section 2.3 (the sums behind a product of codes).
"""

from lastbit.change import Change
from lastbit.graph import Node, Round, apply, broadcast, substitute, take
from lastbit.patterns import ONE_FORMAT, sum_of
from lastbit.patterns.scales import NO_OFFSET, largest_offset_sum, offset_operand
from lastbit.rule import Edits, Require, Rewrite, Site, holds, rejects


def rewrite(site: Site) -> Edits:
    """Sum the codes, and subtract the zero point times the sum of the other operand."""
    total = sum_of(site)
    operand, difference, other = offset_operand(total)

    def seen(node: Node) -> Node:
        whole = broadcast(node, difference.shape)
        return substitute([operand], {difference.key: whole})[operand.key]

    codes = total.over(apply("mul", seen(difference.xs[0]), other))
    zero = take(seen(difference.xs[1]), total.axis, 0, 1)
    correction = Round(apply("mul", zero, total.over(other)), total.acc)
    return {site.name: total.replaced(apply("sub", codes, correction))}


RULE = Rewrite(
    code="QNT333",
    name="factor-zero-point-out",
    claim=Change.BITWISE,
    prose=__doc__,
    graph="""
        q: uint8[M, K]
        z: uint8[M, 1]
        w: int8[K, N]
        y: int32 = matmul(q - z, w) acc int32 seq
        f: f16 = matmul(q - z, w) acc f16 seq
        u: int32 = matmul(q, w) acc int32 seq
        h: int32 = matmul(q - z, w) acc int32 split(2, partials=bf16)
        i: int4[M, K]
        j: int4[M, 1]
        v: int4[K, N]
        o: int8 = matmul(i - j, v) acc int8 seq
    """,
    at=("y",),
    sizes={"M": 1, "K": 2, "N": 1},
    rewrite=rewrite,
    requires=(
        Require(
            "the accumulator is an integer",
            lambda site: sum_of(site).acc.format.kind == "integer",
            lambda site: sum_of(site).acc.format.short,
        ),
        ONE_FORMAT,
        Require(
            "no sum can overflow",
            lambda site: largest_offset_sum(sum_of(site)) <= sum_of(site).acc.format.max_finite,
            lambda site: f"up to {largest_offset_sum(sum_of(site))}",
        ),
    ),
    examples=(
        holds(q=[[255, 3]], z=[[7]], w=[[-128], [5]], i=0, j=0, v=0),
        rejects("no sum can overflow", at=("o",), q=1, z=1, w=1, i=7, j=7, v=7),
        rejects("the accumulator is an integer", at=("f",), q=1, z=7, w=1, i=0, j=0, v=0),
        rejects(ONE_FORMAT.text, at=("h",), q=1, z=7, w=1, i=0, j=0, v=0),
        rejects(NO_OFFSET, at=("u",), q=1, z=7, w=1, i=0, j=0, v=0),
    ),
    title=lambda site: f"the zero point leaves the sum `{site.name}` as a correction",
)
