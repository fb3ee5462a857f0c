"""DET631 ties-without-rule: an index is chosen, and which of equal elements wins is not promised.

Why it matters: scores in bf16 tie often. A router's top-k, a greedy decoder's argmax or a beam then
picks another expert or token in another kernel, batch or run, and everything behind it changes,
while the chosen values are the same to the last bit. The remedy names a rule: the lowest index.
Legal: where no two elements can be equal, or where any of the equal ones will do.
Error: none in the values; the index may be that of any equal element, and the results of one input
form a set.
Source: torch.topk, whose manual promises no order among equal elements; vllm#54403, torchtitan#3336
(experts that differ where scores tie).
See also: DET606 for a rule that was promised and is not kept.
"""

from collections.abc import Iterator

from lastbit.change import Change
from lastbit.patterns.ties import choices_by, chosen_otherwise
from lastbit.rule import Danger, Edits, Rewrite, Site, Standing, breaks, holds, rejects

NEED = "an index is chosen with no rule for equal elements"


def finds(standing: Standing) -> Iterator[Danger]:
    """Yield the values that choose an index with no rule for equal elements."""
    for name, node in standing.program.nodes.items():
        if choices_by(node, ("any",)):
            yield Danger(
                (name,),
                f"`{name}` takes the index of a largest element; of equal ones any may be taken",
            )


def rewrite(site: Site) -> Edits:
    """Let the lowest index win."""
    return chosen_otherwise(site, ("any",), "first", NEED)


RULE = Rewrite(
    code="DET631",
    name="ties-without-rule",
    claim=Change.MATH,
    prose=__doc__,
    graph="""
        x: bf16[M, E]
        i: int32 = argmax(x)
        k: int32 = topk_indices(x, 2)
        f: int32 = argmax_first(x)
        s: int32 = topk_indices_first(x, 2)
        v: bf16 = topk(x, 2)
    """,
    at=("i", "k"),
    sizes={"M": 1, "E": 6},
    rewrite=rewrite,
    finds=finds,
    examples=(
        breaks(
            at=("i",), x=[[0.5, 0.25, 0.5, 0.5, 0.125, 0.5]], shows="i: 0x00000005 -> 0x00000000"
        ),  # any of four
        breaks(at=("k",), x=[[0.5, 0.25, 0.5, 0.5, 0.125, 0.5]]),  # 0, 2 by the rule
        holds(at=("k",), x=[[0.5, 0.25, 0.75, 0.375, 0.125, 1]]),  # no two are equal
        rejects(NEED, at=("f",), x=1),
    ),
    title=lambda site: f"of equal elements `{site.name}` takes the one with the lowest index",
)
