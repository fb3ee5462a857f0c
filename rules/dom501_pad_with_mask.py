"""DOM501 pad-with-mask: an axis is padded, and the padding is masked before it is reduced.

Why it matters: kernels work on whole tiles and serving systems on whole buckets, so axes are
padded. Where the mask puts the identity of the reduction (0 for a sum, -inf for a maximum) behind
the last element, and the tree of the real elements stays, no bit changes.
Legal: where the sum adds elements at the end last: seq, lanes, blocks of a fixed length.
Error: exact, as long as the sum's pieces do not move with the length of the axis.
Source: IEEE 754-2019, clause 6.3 (x + 0 is x, save for -0, which becomes 0); pytorch#189896 (a mask
that was lost).
See also: DOM502, where the mask is missing.
"""

from lastbit.change import Change
from lastbit.patterns.padding import PAD, masked
from lastbit.rule import Edits, Rewrite, Site, holds, rejects


def rewrite(site: Site) -> Edits:
    """Append identities to what each reduction reads."""
    return {name: masked(site.definition(name), site.integer("pad")) for name in site.at}


RULE = Rewrite(
    code="DOM501",
    name="pad-with-mask",
    claim=Change.BITWISE,
    prose=__doc__,
    graph="""
        s: f32[M, K]
        o: f32 = softmax(s) acc f32 seq
        l: f32 = sum(s) acc f32 seq
        h: f32 = sum(s) acc f32 pairwise
        m: f32 = max(s)
        z: f32 = s * 2
    """,
    at=("o",),
    sizes={"M": 1, "K": 3},
    rewrite=rewrite,
    parameters=(PAD,),
    examples=(
        holds({"pad": 2}, s=[[1, 2, 3]]),
        holds({"pad": 1}, s=[[-1, -2, -3]]),  # a 0 in place of -inf would be the maximum
        holds({"pad": 2}, at=("m",), s=[[-1, -2, -3]]),
        holds({"pad": 5}, at=("l",), s=[["0x1p+24", 1, 1]]),
        rejects(
            "zeros at the end do not change the sum's tree",
            {"pad": 5},
            at=("h",),
            s=[["0x1p+24", 1, 1]],
        ),
        rejects("the value holds a sum or a maximum", {"pad": 1}, at=("z",), s=[[1, 2, 3]]),
    ),
    title=lambda site: f"`{site.name}` reduces {site.integer('pad')} masked elements more",
    placement=True,
)
