"""RED274 base-unstated: log-sum-exps are merged by an exponential whose base may be another.

Why it matters: a log-sum-exp to base 2 and one to base e are both plain floats. Attention kernels
return either, and a merge that reads the wrong one raises the shares of the splits to the power
1.44 or 0.69: 3 and 1 weigh the results 1 and 2 to 1.1192029, and read in the wrong base to
1.0528805. Equal log-sum-exps hide it. Where the program holds the logarithm too, the bases can be
compared; where log-sum-exps are inputs, write the base down: exp2(x * log2e) for natural ones, or
exp(x * ln2) for those to base 2.
Legal: where the base is written down, or both sides are known to share it.
Error: none in real numbers where the base is only written down; else unbounded in the shares.
Source: attention-gym#205 and flashinfer#2113 (base 2 against base e).
See also: RED258 for the merge as a transform.
"""

from collections.abc import Iterator

from lastbit.change import Change
from lastbit.rule import Danger, Edits, Rewrite, Site, Standing, breaks, holds, rejects
from lastbit.unsafe import called
from lastbit.unsafe.bases import NO_MERGE, Suspect, suspects, with_base


def finds(standing: Standing) -> Iterator[Danger]:
    """Yield the values that take exponentials of another base, or of one that nothing states."""
    for reader, suspect in {s.shift.reader: s for s in suspects(standing.program)}.items():
        yield Danger((reader,), _message(suspect))


def _message(suspect: Suspect) -> str:
    fn, state = suspect.shift.exp.fn, called(suspect.shift.difference.xs[0], "what it reads")
    if suspect.base is None:
        return f"nothing says whether {state} is a logarithm to base e or 2, and it is read as {fn}"
    if suspect.base == "mixed":
        return f"{fn} of a difference of logarithms to base e and to base 2"
    return f"{state} is a logarithm to base {suspect.base}, and {fn} reads it to {suspect.taken}"


def rewrite(site: Site) -> Edits:
    """Take exponentials of the base of the logarithm; where nothing states it, write it down."""
    return with_base(site)


RULE = Rewrite(
    code="RED274",
    name="base-unstated",
    claim=Change.MATH,
    loses=("domain",),
    prose=__doc__,
    graph="""
        a: f32[M]                                             # log-sum-exps of two splits
        b: f32[M]
        m: f32 = maximum(a, b)
        p: f32 = exp(a - m)                                   # to which base?
        n: f32 = exp2((a - m) * log2e)                        # to base e
        s: f32[M]                                             # sums of weights
        l: f32 = m + log2(s)
        k: f32 = maximum(l, b)
        q: f32 = exp(l - k)                                   # of base 2, read to base e
        r: f32 = exp2(l - k)
        t: f32 = exp((l - k) * ln2)
        i: f32 = a + log(s)
        j: f32 = exp(i - a)
        d: f32 = exp(l - b)                                   # of base 2, and may overflow
    """,
    at=("p", "q", "d"),
    sizes={"M": 1},
    rewrite=rewrite,
    finds=finds,
    examples=(
        breaks(
            at=("q",), a=[1], b=[3], s=[0.5], shows="q: 0x3ebc5ab2 -> 0x3f000000"
        ),  # 1/2 in place of 1/e
        breaks(at=("d",), a=[1], b=[-100], s=[1]),  # 2^101, where e^101 is infinite
        holds(at=("p",), a=[1], b=[3], s=[1]),  # the same function, and now it says so
        rejects(NO_MERGE, at=("r",), a=[1], b=[3], s=[1]),
    ),
    title=lambda site: f"`{site.name}` takes exponentials of the base of its logarithms",
)
