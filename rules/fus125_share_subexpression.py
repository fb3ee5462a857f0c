"""FUS125 share-subexpression: a value that is computed twice is computed once and read twice.

Why it matters: common subexpression elimination is the commonest rewrite of all, and it is free:
equal operations on equal operands give equal bits. It needs operations without hidden state: two
draws of a random generator, or a buffer that is written between the two, are no common
subexpression, and a sum by atomics may differ from run to run by itself.
Legal: for pure operations.
Error: exact.
Source: Aho et al., Compilers: Principles, Techniques, and Tools, 2nd ed., sec. 9.1.4; IEEE
754-2019, clause 4.3 (a rounding is a function of its operand).
"""

from lastbit.change import Change
from lastbit.rule import Edits, MismatchError, Rewrite, Site, holds, rejects

NEED = "the site names two values of one definition"


def rewrite(site: Site) -> Edits:
    """Make the second value a copy of the first."""
    if len(site.at) != 2:
        raise MismatchError(NEED)
    first, second = site.at
    if first == second or site.definition(first).key != site.definition(second).key:
        raise MismatchError(NEED)
    return {second: site.ref(first)}


RULE = Rewrite(
    code="FUS125",
    name="share-subexpression",
    claim=Change.BITWISE,
    prose=__doc__,
    graph="""
        x: f32[M, K]
        m: f32 = sum(x * x) acc f32 seq
        v: f32 = sum(x * x) acc f32 seq
        y: f32 = x / v + m
        z: f32 = x / m
    """,
    at=("m", "v"),
    sizes={"M": 1, "K": 2},
    rewrite=rewrite,
    examples=(
        holds(x=[[3, 5]]),
        holds(x=[["0x1.000002p+0", "0x1p-20"]]),
        rejects(NEED, x=[[1, 1]], at=("m", "y")),
    ),
    title=lambda site: f"`{site.at[-1]}` is no longer computed; `{site.name}` is read instead",
)
