"""RED204 split-k-atomics: partial sums are added by atomic operations, in the order they arrive.

Why it matters: arrival is decided by timing, so two runs on the same input can give other bits.
Nothing in the program, its input or its seed fixes the result.
Legal: where two runs may differ.
Error: gamma(K/n + n - 2) times the sum of absolute terms holds for every order; the results of one
input form a set.
Source: Higham, Accuracy and Stability of Numerical Algorithms, 2nd ed., sec. 4.2 (the bound is the
same for each order); transformers#43362 (`index_add_`, by atomic additions).
See also: RED208, which replaces atomics; DET603 for rows that an index names.
"""

from lastbit.change import Change
from lastbit.patterns import ONE_FORMAT, PIECES, TILE, pieces_said, split_across_blocks, sum_of
from lastbit.rule import Edits, Rewrite, Site, breaks, holds, rejects
from lastbit.schedule import AnyOrder, Split


def _schedule(site: Site) -> Split:
    inner = sum_of(site).schedule
    return Split(site.integer("n"), tile=site.integer("tile"), inner=inner, outer=AnyOrder())


def rewrite(site: Site) -> Edits:
    """Split the schedule of the sum, with pieces added in any order."""
    return {site.name: sum_of(site).scheduled(_schedule(site))}


RULE = Rewrite(
    code="RED204",
    name="split-k-atomics",
    claim=Change.REASSOCIATION,
    prose=__doc__,
    graph="""
        x: f32[K]
        y: f32 = sum(x) acc f32 seq
        h: f32 = sum(x) acc f32 split(2, partials=bf16)
    """,
    at=("y",),
    sizes={"K": 3},
    rewrite=rewrite,
    parameters=(PIECES, TILE),
    requires=(ONE_FORMAT,),
    examples=(
        breaks(
            {"n": 3}, x=(1, "0x1p-24", "0x1p-24"), shows="y: 0x3f800000 -> 0x3f800001"
        ),  # the last two first: one ulp more
        breaks({"n": 3}, x=("0x1.8p+127", "0x1.8p+127", "-0x1.8p+127")),  # inf in one order
        holds({"n": 3}, x=(1, 2, 3)),  # exact in every order
        rejects(ONE_FORMAT.text, {"n": 3}, x=1, at=("h",)),
    ),
    loses=("domain", "deterministic"),
    title=lambda site: (
        f"the partial sums of `{site.name}`, of {pieces_said(site, _schedule(site))}, are added in "
        "the order they arrive"
    ),
    places=split_across_blocks,
)
