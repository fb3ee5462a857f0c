"""DET603 scatter-add-atomics: values that fall on one row are added in the order they arrive.

Why it matters: `index_add` and `scatter_add` on a GPU are atomic additions, so rows that an index
names twice are summed in an order that timing decides. An embedding's gradient, or tokens that
return from their experts, differ from run to run.
Legal: where no index occurs twice, or where two runs may differ.
Error: gamma(n - 1) times the sum of absolute terms for n values on one row, in every order; the
results of one input form a set.
Source: transformers#43362 (`index_add_` with duplicate indices); Higham, Accuracy and Stability of
Numerical Algorithms, 2nd ed., sec. 4.2.
See also: RED204 for the partial sums of one long sum; DET605 for experts.
"""

from lastbit.change import Change
from lastbit.patterns import ONE_FORMAT, is_map, is_number, past_views, sum_of
from lastbit.rule import Edits, MismatchError, Rewrite, Site, breaks, holds, rejects
from lastbit.schedule import AnyOrder

NEED = "the sum picks its terms by an index: select(i == row, x, 0)"


def rewrite(site: Site) -> Edits:
    """Add the picked terms in any order; the zeros among them change nothing."""
    total = sum_of(site)
    picked = past_views(total.terms)
    if not is_map(picked, "select") or not is_map(past_views(picked.args[0]), "equal"):
        raise MismatchError(NEED)
    if not is_number(past_views(picked.args[2]), 0):
        raise MismatchError(NEED)
    return {site.name: total.scheduled(AnyOrder())}


RULE = Rewrite(
    code="DET603",
    name="scatter-add-atomics",
    claim=Change.REASSOCIATION,
    prose=__doc__,
    graph="""
        x: f32[T, 1]
        i: int32[T, 1]
        row: int32[1, E]
        y: f32 = sum(select(i == row, x, 0), axis=0) acc f32 seq
        z: f32 = sum(x, axis=0) acc f32 seq
        h: f32 = sum(select(i == row, x, 0), axis=0) acc f32 split(2, partials=bf16)
    """,
    at=("y",),
    sizes={"T": 3, "E": 2},
    rewrite=rewrite,
    requires=(ONE_FORMAT,),
    examples=(
        breaks(
            x=[[1], ["0x1p-24"], ["0x1p-24"]],
            i=0,
            row=[[0, 1]],
            shows="y[0, 0]: 0x3f800000 -> 0x3f800001",
        ),  # the last two first
        breaks(x=[["0x1.8p+127"], ["0x1.8p+127"], ["-0x1.8p+127"]], i=0, row=[[0, 1]]),
        holds(x=[[1], ["0x1p-24"], [3]], i=[[0], [1], [2]], row=[[0, 1]]),  # no index twice
        rejects(ONE_FORMAT.text, at=("h",), x=1, i=0, row=0),
        rejects(NEED, at=("z",), x=1, i=0, row=0),
    ),
    title=lambda site: f"values that fall on one row of `{site.name}` are added as they arrive",
    loses=("domain", "deterministic"),
)
