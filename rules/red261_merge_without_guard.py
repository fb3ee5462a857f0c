"""RED261 merge-without-guard: attention states are merged without a guard for empty ones.

Why it matters: a state that has seen no key has the log-sum-exp -inf. Where all of them are empty,
as for a padded row or a split behind the end of a short context, so is their maximum, and -inf -
(-inf) is NaN. The guard takes another reference, such as 0, where the maximum is -inf.
Legal: where every merge has a state that is not empty.
Error: exact where one state is not empty.
Source: IEEE 754-2019, clause 7.2 (inf - inf is invalid); flashinfer#4051, vllm#39148.
See also: RED271, which finds merges without a guard.
"""

from lastbit.change import Change
from lastbit.graph import Const, Map
from lastbit.patterns import find, is_map, only, replace, same_format
from lastbit.rule import Edits, Rewrite, Site, breaks, holds, rejects

NEED = "the value takes another number where one is -inf"
LOWEST = Const(float("-inf"))


def is_guard(node: Map) -> bool:
    """Return whether a node is x, but another number where x = -inf."""
    test = node.xs[0]
    if not (is_map(node, "select") and isinstance(test, Map) and is_map(test, "equal")):
        return False
    return {x.key for x in test.xs} == {LOWEST.key, node.xs[2].key}


def rewrite(site: Site) -> Edits:
    """Read what is guarded as it is."""
    guard = only(find(site.node, Map, is_guard), NEED)
    return {site.name: same_format(site.node, replace(site.node, guard, guard.xs[2]))}


RULE = Rewrite(
    code="RED261",
    name="merge-without-guard",
    claim=Change.BITWISE,
    prose=__doc__,
    graph="""
        e: f32[S]                                  # log-sum-exp of each state
        v: f32[S]                                  # its result
        m: f32 = max(e)
        w: f32 = exp(e - select(m == -inf, 0, m))
        d: f32 = sum(w) acc f32 seq
        u: f32 = sum(w * v) acc f32 seq
        y: f32 = u / select(d == 0, 1, d)
    """,
    at=("w",),
    sizes={"S": 2},
    rewrite=rewrite,
    examples=(
        breaks(e=float("-inf"), v=0, shows="y: 0x00000000 -> 0x7fc00000"),  # NaN in place of 0
        holds(e=(1.5, float("-inf")), v=(3, 0)),  # one is empty
        holds(e=(3, 1), v=(1, 2)),
        rejects(NEED, at=("y",), e=1, v=1),
    ),
    loses=("domain",),
    title=lambda site: f"`{site.name}` no longer guards against a maximum of -inf",
)
