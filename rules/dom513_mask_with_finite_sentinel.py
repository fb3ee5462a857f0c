"""DOM513 mask-with-finite-sentinel: masked scores become a large negative number, not -inf.

Why it matters: exp(-10000 - max) is 0 in binary32 as exp(-inf) is, so the two agree until all keys
of a row are masked: -inf gives NaN, the finite number a uniform average over keys that must not be
seen. They also part where scores come near the sentinel. Over the reals the masked keys always have
a weight, so it is another function; both sides of a comparison have to state which one they mean.
Legal: where every row keeps a key and scores stay far above the sentinel.
Error: below the range of the format while some score is far above the sentinel; else unbounded.
Source: flashinfer#4450 (rows without keys against a reference with -5e4) and flashinfer#4452.
See also: DOM512, where the maximum starts at a finite number.
"""

from lastbit.change import Change
from lastbit.graph import Map, Node, const
from lastbit.patterns import find, is_map, is_number, only, replace, same_format
from lastbit.rule import Edits, Parameter, Rewrite, Site, breaks, holds, rejects

NEED = "the value masks once with -inf"


def masks(node: Map) -> bool:
    """Return whether a node selects -inf where something is masked."""
    return is_map(node, "select") and is_number(node.xs[2], float("-inf"))


def rewrite(site: Site) -> Edits:
    """Select the sentinel in place of -inf."""
    mask = only(find(site.node, Map, masks), NEED)
    new: Node = Map("select", (*mask.xs[:2], const(-site.integer("magnitude"))))
    return {site.name: same_format(site.node, replace(site.node, mask, new))}


RULE = Rewrite(
    code="DOM513",
    name="mask-with-finite-sentinel",
    claim=Change.MATH,
    prose=__doc__,
    graph="""
        s: f32[M, K]
        k: f32[M, K]                                              # 0: masked
        o: f32 = softmax(select(k, s, -inf)) acc f32 seq
        z: f32 = softmax(s) acc f32 seq
    """,
    at=("o",),
    sizes={"M": 1, "K": 4},
    rewrite=rewrite,
    parameters=(Parameter("magnitude", "count", "masked scores become minus this number", 10000),),
    examples=(
        breaks(
            s=1, k=0, shows="o[0, 0]: 0x7fc00000 -> 0x3e800000"
        ),  # four weights of 1/4 in place of NaN
        breaks(s=-10000, k=[[1, 1, 1, 0]]),  # four weights of 1/4 in place of 1/3 and 0
        holds(s=1, k=[[1, 1, 0, 0]]),  # exp(-10001) is 0 in binary32
        holds(s=1, k=1),
        rejects(NEED, at=("z",), s=1, k=1),
    ),
    loses=("domain",),
    title=lambda site: f"`{site.name}` masks with -{site.integer('magnitude')} in place of -inf",
)
