"""RED208 fixed-order-merge: partial sums are written to a buffer, and one task adds them in order.

Why it matters: it is what replaces atomics where results must repeat. The buffer costs a write, a
read and the wait for the slowest piece; the bits are those of the schedule that was declared.
Legal: always.
Error: none; the same rounded operations run on the same operands.
Source: Demmel and Nguyen, "Fast Reproducible Floating-Point Summation" (ARITH 21, 2013), on what
reproducibility asks of a sum.
See also: RED204, which it replaces.
"""

from lastbit.change import Change
from lastbit.definitions import reference
from lastbit.graph import Reduce, Round, concat, take
from lastbit.patterns import fresh, pieces_of, sum_of
from lastbit.rule import Edits, MismatchError, Rewrite, Site, holds, rejects
from lastbit.schedule import Lanes, Split, deterministic, formats


def rewrite(site: Site) -> Edits:
    """Name the partial sums, each computed on its own, and add them from there."""
    total = sum_of(site)
    schedule, axis = total.schedule, total.axis
    if not isinstance(schedule, Split | Lanes):
        raise MismatchError("the sum has partial sums: split or lanes")
    if not deterministic(schedule):
        raise MismatchError("the order of the partial sums is declared")
    if formats(schedule, total.acc.format.short) != {total.acc.format.short}:
        raise MismatchError("all levels of the sum have one format")
    parts = []
    for first, *rest in pieces_of(schedule, total.length):
        step = rest[0] - first if rest else 1
        terms = take(total.terms, axis, first, (rest[-1] if rest else first) + 1, step)
        parts.append(Reduce("sum", terms, axis, schedule.inner, total.acc))
    name = fresh(site, f"{site.name}_partials")
    buffer = Round(concat(parts, axis), total.acc)
    merged = Reduce("sum", reference(name, buffer), axis, schedule.outer, total.acc)
    return {name: buffer, site.name: total.replaced(merged)}


RULE = Rewrite(
    code="RED208",
    name="fixed-order-merge",
    claim=Change.BITWISE,
    prose=__doc__,
    graph="""
        x: f32[K]
        y: f32 = sum(x) acc f32 split(3)
        z: f32 = sum(x) acc f32 seq
        r: f32 = sum(x) acc f32 split(3, inner=seq, outer=any_order)
        s: f32 = sum(x) acc f32 split(3, partials=bf16)
        return y
    """,
    at=("y",),
    sizes={"K": 5},
    rewrite=rewrite,
    examples=(
        holds(x=(1, "0x1p-24", "0x1p-24", "0x1p-24", "0x1p-24")),  # their order shows in the bits
        rejects("the sum has partial sums: split or lanes", x=1, at=("z",)),
        rejects("the order of the partial sums is declared", x=1, at=("r",)),
        rejects("all levels of the sum have one format", x=1, at=("s",)),
    ),
    title=lambda site: f"one task adds the buffered partial sums of `{site.name}`, in order",
    placement=True,
)
