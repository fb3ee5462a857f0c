"""DET606 last-of-equal: of equal elements the last is chosen, whatever was promised.

Why it matters: a reduction that compares with `>=` in place of `>` keeps the later of two equal
elements. Scores in bf16 tie often, and every index behind the tie, expert or token, is another one.
Error: none in the chosen values; the index may be any other one.
Source: numpy.argmax, whose manual promises the first of equal elements; torch.topk, whose manual
promises none; vllm#54403 (a router's choice among equal scores).
"""

from lastbit.change import Change
from lastbit.choices import choice_of, with_ties
from lastbit.graph import Reduce
from lastbit.patterns import find, replace
from lastbit.rule import Edits, MismatchError, Rewrite, Site, breaks, holds, rejects

NEED = "an index is chosen whose rule for equal elements is another"


def rewrite(site: Site) -> Edits:
    """Let every index of the value be the last of equal ones."""
    node = site.node
    for chosen in find(node, Reduce, lambda reduce: _may_change(reduce.op)):
        node = replace(node, chosen, Reduce(with_ties(chosen.op, "last"), chosen.x, chosen.axis))
    if node is site.node:
        raise MismatchError(NEED)
    return {site.name: node}


def _may_change(op: str) -> bool:
    choice = choice_of(op)
    return choice is not None and choice.ties in ("any", "first")


RULE = Rewrite(
    code="DET606",
    name="last-of-equal",
    claim=Change.MATH,
    prose=__doc__,
    graph="""
        x: bf16[M, E]
        i: int32 = argmax_first(x)
        k: int32 = topk_indices_first(x, 2)
        l: int32 = argmax_last(x)
    """,
    at=("i",),
    sizes={"M": 1, "E": 3},
    rewrite=rewrite,
    examples=(
        breaks(x=[[1, 2, 2]], shows="i: 0x00000001 -> 0x00000002"),  # 1 in place of 2
        breaks(at=("k",), x=[[2, 1, 2]]),
        holds(x=[[1, 3, 2]]),  # no two are equal
        rejects(NEED, at=("l",), x=1),
    ),
    title=lambda site: f"of equal elements `{site.name}` takes the last",
)
