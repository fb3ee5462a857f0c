"""DET604 scan-chunks: a prefix sum is computed in chunks, whose totals are carried on.

Why it matters: a scan of one pass lets each block add what the blocks before it have published. In
the order of the chunks the result depends on their length, which a tuner picks; with decoupled
look-back the carry is put together from whatever is ready, so two runs differ, and a flag for
deterministic algorithms does not reach kernels that a compiler writes. The first prefix that can
differ is the second one behind the first chunk.
Legal: in order of the chunks, where their length is pinned; with look-back, where two runs may
differ.
Error: gamma(c + K/c - 2) in place of gamma(K - 1) times the sum of absolute terms, for chunks of c.
Source: Merrill and Garland, "Single-pass Parallel Prefix Scan with Decoupled Look-back" (NVIDIA
NVR-2016-002); pytorch#75240, pytorch#190946.
"""

from lastbit.change import Change
from lastbit.patterns import ONE_FORMAT, is_map, past_views, sum_length, sum_of
from lastbit.rule import Edits, MismatchError, Parameter, Rewrite, Site, breaks, holds, rejects
from lastbit.schedule import AnyOrder, Seq, Split

NEED = "the sum is a prefix sum: select(j <= i, x, 0)"
CARRIES = {"in order": Seq(), "look-back": AnyOrder()}


def rewrite(site: Site) -> Edits:
    """Sum the chunks, each from zero, and add their totals."""
    total = sum_of(site)
    terms = past_views(total.terms)
    if not is_map(terms, "select") or not is_map(past_views(terms.args[0]), "less_equal", "less"):
        raise MismatchError(NEED)
    carry = CARRIES[site.text("carry")]
    chunked = Split(size=site.integer("chunk"), inner=total.schedule, outer=carry)
    return {site.name: total.scheduled(chunked)}


RULE = Rewrite(
    code="DET604",
    name="scan-chunks",
    claim=Change.REASSOCIATION,
    prose=__doc__,
    graph="""
        x: f32[1, K]
        j: int32[1, K]
        i: int32[N, 1]
        y: f32 = sum(select(j <= i, x, 0)) acc f32 seq
        z: f32 = sum(x) acc f32 seq
        h: f32 = sum(select(j <= i, x, 0)) acc f32 split(2, partials=bf16)
    """,
    at=("y",),
    sizes={"K": 4, "N": 4},
    rewrite=rewrite,
    parameters=(
        Parameter("chunk", "length", "terms in a chunk", axis=sum_length),
        Parameter("carry", "choice", "how totals are carried", "in order", tuple(CARRIES)),
    ),
    requires=(ONE_FORMAT,),
    examples=(
        breaks(
            {"chunk": 2},
            x=[[2**24, 1, 1, 1]],
            j=[[0, 1, 2, 3]],
            i=[[0], [1], [2], [3]],
            shows="y[3, 0]: 0x4b800000 -> 0x4b800001",
        ),
        breaks({"chunk": 1, "carry": "look-back"}, x=[[2**24, 1, 1, 1]], j=[[0, 1, 2, 3]], i=3),
        breaks(
            {"chunk": 2}, x=[["0x1.8p+127", 0, "0x1.8p+127", "-0x1.8p+127"]], j=[[0, 1, 2, 3]], i=3
        ),  # finite, not inf
        # The first prefix behind the chunk adds one term to its total: no other bits yet.
        holds({"chunk": 2}, x=[[2**24, 1, 1, 1]], j=[[0, 1, 2, 3]], i=[[0], [1], [2], [2]]),
        rejects(ONE_FORMAT.text, {"chunk": 2}, at=("h",), x=1, j=0, i=0),
        rejects(NEED, {"chunk": 2}, at=("z",), x=1, j=0, i=0),
    ),
    title=lambda site: (
        f"`{site.name}` is scanned in chunks of {site.integer('chunk')}, with totals carried "
        f"{'on as they are ready' if site.text('carry') == 'look-back' else 'in order'}"
    ),
    loses=("domain", "deterministic"),
)
