"""DET606 last-of-equal: of equal elements the last is chosen, whatever was promised.

Why it matters: a reduction that compares with `>=` in place of `>` keeps the later of two equal
elements. Scores in bf16 tie often, and every index behind the tie, expert or token, is another one.
Legal: where no two elements are equal; never against a promise of the first one.
Error: none in the chosen values; the index may be any other one.
Source: numpy.argmax, whose manual promises the first of equal elements; torch.topk, whose manual
promises none; vllm#54403 (a router's choice among equal scores).
See also: DET631, which finds choices without any rule.
"""

from lastbit.change import Change
from lastbit.patterns.ties import chosen_otherwise
from lastbit.rule import Edits, Rewrite, Site, breaks, holds, rejects

NEED = "an index is chosen whose rule for equal elements is another"


def rewrite(site: Site) -> Edits:
    """Let every index of the value be the last of equal ones."""
    return chosen_otherwise(site, ("any", "first"), "last", NEED)


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
