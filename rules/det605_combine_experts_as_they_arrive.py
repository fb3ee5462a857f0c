"""DET605 combine-experts-as-they-arrive: a token adds its experts' outputs as they arrive.

Why it matters: experts of a mixture run side by side, and each adds its weighted output to the
token's row when it is done. Which comes first depends on load, so a token's bits change with timing
and with the other tokens of the batch. Adding in the order of the experts repeats.
Legal: where two runs may differ.
Error: gamma(k - 1) times the sum of absolute terms for k experts, in every order.
Source: transformers#43362 (experts combined by `index_add_`); Higham, Accuracy and Stability of
Numerical Algorithms, 2nd ed., sec. 4.2.
See also: DET603 for rows that an index names.
"""

from lastbit.change import Change
from lastbit.patterns import ONE_FORMAT, is_map, past_views, sum_of, written_out
from lastbit.rule import Edits, MismatchError, Rewrite, Site, breaks, holds, rejects
from lastbit.schedule import AnyOrder

NEED = "the value is a sum of weighted outputs: products"


def rewrite(site: Site) -> Edits:
    """Add the weighted outputs in any order."""
    total = sum_of(site)
    terms = written_out(site, total.terms)
    weighted = past_views(terms.args[0]) if terms.args and not is_map(terms, "mul") else terms
    if not is_map(weighted, "mul"):
        raise MismatchError(NEED)
    return {site.name: total.scheduled(AnyOrder())}


RULE = Rewrite(
    code="DET605",
    name="combine-experts-as-they-arrive",
    claim=Change.REASSOCIATION,
    prose=__doc__,
    graph="""
        weight: f32[M, E, 1]
        out: bf16[M, E, N]
        part: f32 = weight * out
        y: f32 = sum(part, axis=1) acc f32 seq
        z: f32 = sum(out, axis=1) acc f32 seq
        h: f32 = sum(part, axis=1) acc f32 split(2, partials=bf16)
    """,
    at=("y",),
    sizes={"M": 1, "E": 3, "N": 1},
    rewrite=rewrite,
    requires=(ONE_FORMAT,),
    examples=(
        breaks(
            weight=[[["0x1p-24"], ["0x1p-24"], [1]]], out=1, shows="y: 0x3f800001 -> 0x3f800000"
        ),  # the large one first: both lost
        breaks(weight=[[["0x1.8p+127"], ["0x1.8p+127"], ["-0x1.8p+127"]]], out=1),
        holds(weight=[[[0.5], [0.25], [0.25]]], out=3),  # every sum is exact
        rejects(ONE_FORMAT.text, at=("h",), weight=1, out=1),
        rejects(NEED, at=("z",), weight=1, out=1),
    ),
    title=lambda site: f"the experts' outputs in `{site.name}` are added as they arrive",
    loses=("domain", "deterministic"),
)
