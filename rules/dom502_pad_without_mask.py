"""DOM502 pad-without-mask: an axis is padded with zeros, and the padding is reduced too.

Why it matters: zeros are neutral for a sum of what was padded, but not behind a function: each zero
score counts as exp(0 - max) in the sum of a softmax, shifts a variance by mean^2, and is the
maximum of a row of negative numbers. Results then depend on the length of the bucket.
Legal: for plain sums, of which a zero is the identity; for nothing else.
Error: unbounded; grows with the padding.
Source: pytorch#189896 and pytorch#126535 (masks dropped, so that padding was counted).
See also: DOM501 for padding that is masked; DOM514 for a mask that is dropped.
"""

from lastbit.change import Change
from lastbit.patterns.padding import PAD, unmasked
from lastbit.rule import Edits, Rewrite, Site, breaks, holds, rejects


def rewrite(site: Site) -> Edits:
    """Append zeros to what the functions in front of each reduction read."""
    return {name: unmasked(site, name, site.integer("pad")) for name in site.at}


RULE = Rewrite(
    code="DOM502",
    name="pad-without-mask",
    claim=Change.MATH,
    prose=__doc__,
    graph="""
        s: f32[M, K]
        m: f32 = max(s, axis=-1)
        p: f32 = exp(s - m)
        l: f32 = sum(p) acc f32 seq
        o: f32 = softmax(s) acc f32 seq
        d: f32 = sum(s) acc f32 seq
        z: f32 = s * 2
    """,
    at=("l",),
    sizes={"M": 1, "K": 2},
    rewrite=rewrite,
    parameters=(PAD,),
    examples=(
        breaks({"pad": 1}, s=[[0, 0]], shows="l: 0x40000000 -> 0x40400000"),  # 3 in place of 2
        breaks({"pad": 1}, at=("m",), s=[[-1, -2]]),  # 0 in place of -1
        breaks({"pad": 2}, at=("o",), s=[[0, 0]]),  # weights of 1/4 in place of 1/2
        holds({"pad": 1}, at=("d",), s=[[1, 2]]),  # zeros are neutral in a plain sum
        rejects("the value holds a sum or a maximum", {"pad": 1}, at=("z",), s=[[1, 2]]),
    ),
    loses=("domain",),
    title=lambda site: (
        f"`{site.name}` reduces {site.integer('pad')} elements of padding as if they were data"
    ),
)
