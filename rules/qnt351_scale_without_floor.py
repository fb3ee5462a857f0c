"""QNT351 scale-without-floor: a division by a scale that is 0 for zeros.

Why it matters: the scale of a row, block or tensor comes from its largest magnitude. Of zeros it is
0, and 0 / 0 is NaN; written as a multiplication by 448 / amax it is 0 * inf, NaN too. Padding
tokens, masked experts and cleared buffers are such rows, and one is enough. Any nonzero scale is
right there. A floor on the scale and one on the maximum are two different guards, and both are safe
as long as the floor is a number of the format that holds it: 1e-12 in f16 is 0.
Legal: where a declared range of the values excludes 0.
Error: exact where the scale is not 0.
Source: pytorch/ao#4713 and lmdeploy#3652 (NaN from blocks of zeros).
See also: QNT309, the guard as a transform; QNT323 for the two kinds of floor.
"""

from collections.abc import Iterator

from lastbit.change import Change
from lastbit.rule import Danger, Edits, Rewrite, Site, Standing, breaks, holds, rejects
from lastbit.unsafe import values
from lastbit.unsafe.scales import NO_ZERO, divided_by_one, unguarded, zeros_in_words


def finds(standing: Standing) -> Iterator[Danger]:
    """Yield the values that divide by a scale that may be 0."""
    for name, _ in values(standing.program):
        for quotient in unguarded(standing, name):
            yield Danger((name,), zeros_in_words(standing, quotient))
            break


def rewrite(site: Site) -> Edits:
    """Divide by 1 where the scale is 0."""
    return divided_by_one(site)


RULE = Rewrite(
    code="QNT351",
    name="scale-without-floor",
    claim=Change.BITWISE,
    loses=("domain",),
    prose=__doc__,
    graph="""
        x: bf16[M, K]
        s: f32 = amax(x, axis=-1) / 448
        q: e4m3fn = x / s saturate                                # 0 / 0
        r: f32 = 448 / amax(x, axis=-1)                           # inf
        h: f16 = maximum(amax(x, axis=-1) / 448, 1e-12)
        p: e4m3fn = x / h saturate                                # 1e-12 is 0 in f16
        f: f32 = maximum(amax(x, axis=-1) / 448, 1e-12)
        a: e4m3fn = x / f saturate
        g: f32 = maximum(amax(x, axis=-1), 1e-12) / 448
        b: e4m3fn = x / g saturate
        k: f32 = 448 / maximum(amax(x, axis=-1), 1e-12)
        d: e4m3fn = x / select(s == 0, 1, s) saturate
        e: e4m3fn = x * k saturate
    """,
    at=("q", "r", "p"),
    sizes={"M": 1, "K": 2},
    rewrite=rewrite,
    finds=finds,
    examples=(
        breaks(at=("q",), x=[[0, 0]], shows="q[0, 0]: 0x7f -> 0x00"),  # 0 in place of NaN
        breaks(at=("r",), x=[[0, 0]]),
        breaks(at=("p",), x=[["0x1p-60", 0]]),  # a scale of 2^-60/448 is 0 in f16
        holds(at=("q",), x=[[1, 10]]),
        rejects(NO_ZERO, at=("b",), x=[[1, 10]]),
    ),
    title=lambda site: f"`{site.name}` divides by 1 where its scale is 0",
)
