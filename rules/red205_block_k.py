"""RED205 block-k: the terms are loaded block by block, and one accumulator runs through them all.

Why it matters: blocking K bounds the local storage. As long as the accumulator is carried from
block to block and keeps its format, every addition is the one that was there before.
Legal: always, with one accumulator that keeps its format.
Error: none; the same rounded operations run on the same operands.
Source: Goto and van de Geijn, "Anatomy of High-Performance Matrix Multiplication" (ACM Trans. Math.
Softw. 34(3), 2008).
See also: RED206, where each block starts from zero; RED212, where the accumulator is stored in
between.
"""

from lastbit.change import Change
from lastbit.cost.placement import Placement, Tile
from lastbit.graph import Node, chunks, concat
from lastbit.patterns import BLOCK, sum_of
from lastbit.rule import Edits, MismatchError, Rewrite, Site, holds, rejects
from lastbit.schedule import Fused, Seq


def rewrite(site: Site) -> Edits:
    """Unroll the loop over blocks; the accumulator is the first term of the next block."""
    total = sum_of(site)
    block = site.integer("block")
    match total.schedule:
        case Fused(k=int(k)) if block % k == 0:
            return {site.name: site.node}  # whole steps of the matrix unit: the tree is the same
    if not isinstance(total.schedule, Seq):
        raise MismatchError("one accumulator runs through the sum: seq, or whole steps of fused")
    running: Node | None = None
    for terms in chunks(total.terms, total.axis, block):
        carried = terms if running is None else concat((running, terms), total.axis)
        running = total.over(carried)
    assert running is not None
    return {site.name: total.replaced(running)}


RULE = Rewrite(
    code="RED205",
    name="block-k",
    claim=Change.BITWISE,
    prose=__doc__,
    graph="""
        x: f32[K]
        y: f32 = sum(x) acc f32 seq
        z: f32 = sum(x) acc f32 pairwise
    """,
    at=("y",),
    sizes={"K": 4},
    rewrite=rewrite,
    parameters=(BLOCK,),
    examples=(
        holds({"block": 2}, x=(1, "0x1p-8", "0x1p-24", "0x1p-24")),  # RED206 breaks on these
        holds({"block": 3}, x=(2**24, 1, 1, 1)),  # the last block is shorter
        rejects(
            "one accumulator runs through the sum: seq, or whole steps of fused",
            {"block": 2},
            x=1,
            at=("z",),
        ),
    ),
    title=lambda site: (
        f"`{site.name}` loads {site.integer('block')} terms at a time into one running accumulator"
    ),
    placement=True,
    places=lambda site: Placement({site.name: Tile(depth=site.integer("block"))}),
)
