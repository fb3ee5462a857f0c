"""FUS112 change-layout: a value is stored in the layout that its readers want.

Why it matters: a separate pass that reorders it is saved. Moving a number does not change it.
Legal: always.
Error: none; no operation is added or removed.
Source: Chen et al., "TVM: An Automated End-to-End Optimizing Compiler for Deep Learning" (arXiv
1802.04799), section 3, data layout transformation.
"""

from lastbit.change import Change
from lastbit.definitions import reference
from lastbit.graph import transpose
from lastbit.patterns import fresh, inlined
from lastbit.rule import Edits, MismatchError, Rewrite, Site, holds, rejects


def rewrite(site: Site) -> Edits:
    """Store the value with its last two axes exchanged; readers exchange them back."""
    rank = len(site.node.shape)
    if rank < 2:
        raise MismatchError("the value has rows and columns")
    order = (*range(rank - 2), rank - 1, rank - 2)
    name = fresh(site, f"{site.name}_layout")
    stored = transpose(site.node, order)
    readers = inlined(site, site.name, transpose(reference(name, stored), order))
    return {name: stored, **readers}


RULE = Rewrite(
    code="FUS112",
    name="change-layout",
    claim=Change.BITWISE,
    prose=__doc__,
    graph="""
        x: bf16[M, N]
        v: bf16[N]
        t: bf16 = silu(x)
        z: f32 = sum(t * 3, axis=1) acc f32 seq
        s: bf16 = v * v
        r: bf16 = s + 1
    """,
    at=("t",),
    sizes={"M": 2, "N": 3},
    rewrite=rewrite,
    examples=(
        holds(x=(1, 2, 3, 4, 5, 6), v=0),  # no two elements are equal
        rejects("the value has rows and columns", x=1, v=1, at=("s",)),
        rejects("another value reads it", x=1, v=1, at=("z",)),
    ),
    title=lambda site: f"`{site.name}` is stored transposed",
    placement=True,
)
