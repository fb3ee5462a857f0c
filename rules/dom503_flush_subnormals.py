"""DOM503 flush-subnormals: results below the smallest normal number become zero.

Why it matters: GPU compilers flush subnormals in binary32 by default in some modes (ftz), others
and the CPU keep them. Tails of softmax, products of small gradients and scales of tiny rows live
there, and a flushed divisor is a division by zero.
Legal: where the mode is declared, or no result is subnormal.
Error: exact from the smallest normal number upwards; below it, all of the value.
Source: PTX ISA, floating-point instructions (.ftz); pytorch#125557 (compiled code flushed).
See also: DOM515 for operands.
"""

import dataclasses

from lastbit.change import Change
from lastbit.graph import Node, Reduce, Round, topological, with_args
from lastbit.rounding import Rounding
from lastbit.rule import Edits, MismatchError, Rewrite, Site, breaks, holds, rejects

NEED = "the value keeps subnormals of a format that is no grid"


def flushed(rounding: Rounding) -> Rounding:
    """Return a rounding that flushes, where its format has subnormals to keep."""
    if rounding.format.is_grid:
        return rounding
    return dataclasses.replace(rounding, subnormals="flush")


def rewrite(site: Site) -> Edits:
    """Flush in every rounding of the value."""
    out: dict[bytes, Node] = {}
    for node in topological([site.node]):
        new = with_args(node, out)
        if isinstance(new, Round):
            new = Round(new.x, flushed(new.rounding))
        elif isinstance(new, Reduce) and new.acc is not None:
            new = Reduce(new.op, new.x, new.axis, new.schedule, flushed(new.acc))
        out[node.key] = new
    if out[site.node.key].key == site.node.key:
        raise MismatchError(NEED)
    return {site.name: out[site.node.key]}


RULE = Rewrite(
    code="DOM503",
    name="flush-subnormals",
    claim=Change.BITWISE,
    prose=__doc__,
    graph="""
        x: f32[N]
        u: f32[N]
        y: f32 = x * u
        l: f32 = sum(x) acc f32 seq
        f: f32 = x * u flush
    """,
    at=("y",),
    sizes={"N": 1},
    rewrite=rewrite,
    examples=(
        breaks(
            x="0x1p-100", u="0x1p-30", shows="y: 0x00080000 -> 0x00000000"
        ),  # 2**-130 is subnormal
        breaks(at=("l",), x=["0x1p-126", "-0x1.8p-127"], u=0),  # so is the difference
        holds(x="0x1p-100", u="0x1p-26"),  # 2**-126 is normal
        rejects(
            NEED,
            at=("f",),
            x=1,
            u=1,
        ),
    ),
    loses=("domain",),
    title=lambda site: f"subnormal results in `{site.name}` become zero",
)
