"""RED271 maximum-without-guard: a maximum is subtracted that may be -inf, with no guard.

Why it matters: a block of keys that is empty, or masked throughout, has the maximum -inf, and so
has the log-sum-exp of an empty split. exp(-inf - -inf) is NaN, and it spreads to every later block
of that row; if the exponentials are guarded and the quotient is not, 0 / 0 is NaN. Reports count
NaN by the hundred thousand. A guard subtracts 0 in place of -inf (then all weights are 0), or keeps
the maximum above a finite number; the quotient needs one of its own. A finite maximum of an input
is taken for granted only where a range is declared; the maximum of a whole row counts only where
the program itself writes -inf, as a mask does.
Legal: where a declared range excludes -inf, or every row has a score.
Error: exact where a state has scores.
Source: flashinfer#4051 and vllm#39148 (merging two empty states); flash-attention#978.
See also: RED261, which takes a guard away.
"""

from collections.abc import Iterator

from lastbit.change import Change
from lastbit.rule import Danger, Edits, Rewrite, Site, Standing, breaks, holds, rejects
from lastbit.unsafe import called
from lastbit.unsafe.states import NO_SHIFT, empty_quotients, guarded, unguarded


def finds(standing: Standing) -> Iterator[Danger]:
    """Yield the values that subtract a maximum of -inf, or divide by the weights it leaves."""
    subtracted = {shift.holder: shift.difference for shift in unguarded(standing)}
    for name, difference in subtracted.items():
        top = called(difference.xs[1], "the maximum")
        yield Danger((name,), f"{top} is -inf where nothing has scores, and -inf - -inf is NaN")
    for name, node in dict(empty_quotients(standing)).items():
        if name in subtracted:
            continue
        below = called(node.xs[1], "the sum of the weights")
        yield Danger((name,), f"{below} is 0 where nothing has scores, and 0 / 0 is NaN")


def rewrite(site: Site) -> Edits:
    """Subtract 0 in place of -inf, or divide by 1 in place of 0."""
    return guarded(site)


RULE = Rewrite(
    code="RED271",
    name="maximum-without-guard",
    claim=Change.BITWISE,
    loses=("domain",),
    prose=__doc__,
    graph="""
        a: f32[M]                                             # log-sum-exps of two splits
        b: f32[M]
        u: f32[M]                                             # their results
        v: f32[M]
        m: f32 = maximum(a, b)
        p: f32 = exp(a - m)                                   # NaN if both are -inf
        q: f32 = exp(b - m)
        g: f32 = select(m == -inf, 0, m)
        r: f32 = exp(a - g)
        t: f32 = exp(b - g)
        l: f32 = r + t
        w: f32 = (r * u + t * v) / l                          # 0 / 0
        z: f32 = (r * u + t * v) / select(l == 0, 1, l)
        f: f32 = maximum(m, -1e30)
        h: f32 = exp(a - f)
        e: f32 = select(m == -inf, 0, exp(a - m))
        return p, q, w, z, h, e
    """,
    at=("p", "q", "w"),
    sizes={"M": 1},
    rewrite=rewrite,
    finds=finds,
    examples=(
        breaks(
            at=("p",),
            a=[float("-inf")],
            b=[float("-inf")],
            u=[0],
            v=[0],
            shows="p: 0x7fc00000 -> 0x00000000",
        ),  # 0, not NaN
        breaks(at=("w",), a=[float("-inf")], b=[float("-inf")], u=[0], v=[0]),
        holds(at=("p",), a=[float("-inf")], b=[1.5], u=[0], v=[3]),  # one state has scores
        holds(at=("w",), a=[1], b=[1.5], u=[1], v=[3]),
        rejects(NO_SHIFT, at=("z",), a=[0], b=[1.5], u=[0], v=[3]),
    ),
    title=lambda site: f"`{site.name}` is guarded where nothing has scores",
)
