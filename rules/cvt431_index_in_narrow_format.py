"""CVT431 index-in-narrow-format: an integer is held in a float that skips integers of its size.

Why it matters: bf16 holds every integer up to 256 and every 64th from 8192 on, so position 15962 is
15936 in it, and its angle is another one: the cosine is -0.9080 in place of -0.2680. Positions,
token ids, offsets and the indices of a top-k are exact up to 2^p in a format of p digits. The
hazard counts for integers of a format beyond that; for formats of as many digits as f32 a declared
range has to say that they are so large, and where a declared range excludes it there is none.
Legal: where a declared range ends at 2^p.
Error: half a step of the format: 32 at 15962 in bf16; without bound in a sine or cosine.
Source: transformers#29285 and candle#3520 (rotary positions in bf16).
See also: CVT405, which narrows the angle.
"""

from collections.abc import Iterator

from lastbit.change import Change
from lastbit.rule import Danger, Edits, Rewrite, Site, Standing, breaks, holds, rejects
from lastbit.unsafe import NO_INDEX, narrowed_indices, values, widened_indices
from lastbit.unsafe.ranges import ranges_of


def finds(standing: Standing) -> Iterator[Danger]:
    """Yield the values that round integers to floats which skip some of them."""
    for name, _ in values(standing.program):
        for node in narrowed_indices(standing.program, name):
            fmt, ranges = node.rounding.format, ranges_of(standing)
            bounds = ranges.of(node.x)
            if bounds.size > 2**fmt.precision and (fmt.precision < 24 or bounds.declared):
                said = ranges.said(bounds) or f" for integers up to {bounds.size:.6g}"
                message = f"{fmt.short} skips integers beyond {2**fmt.precision}{said}"
                yield Danger((name,), f"{message}, so other indices fall together")
                break


def rewrite(site: Site) -> Edits:
    """Hold the integer in f32, or in f64."""
    return widened_indices(site)


RULE = Rewrite(
    code="CVT431",
    name="index-in-narrow-format",
    claim=Change.ROUNDING,
    loses=("domain",),
    prose=__doc__,
    graph="""
        i: int32[N]
        b: int8[N]
        p: bf16 = i
        c: f32 = cos(p)
        h: f32 = i
        d: f32 = cos(h)
        k: f32 = round(i, f16) * 2
        e: bf16 = b
        m: bf16 = clamp(i, 0, 256)
        y: f32 = e * m
    """,
    at=("p", "k"),
    sizes={"N": 1},
    rewrite=rewrite,
    finds=finds,
    examples=(
        breaks(at=("p",), i=15962, b=1, shows="c: 0xbe8930c0 -> 0xbf6873bb"),  # 15936 in bf16
        breaks(at=("k",), i=2049, b=1),  # a tie in f16
        holds(at=("p",), i=256, b=1),
        rejects(NO_INDEX, at=("y",), i=1, b=1),
    ),
    title=lambda site: f"`{site.name}` holds its integers in a format that has all of them",
)
