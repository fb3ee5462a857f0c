"""CVT402 elide-wide-narrow: a value is no longer widened and narrowed again.

Why it matters: a pair of casts to a wider format and back is the identity, so removing it is free.
That asks for a middle format with every value of the outer one; binary16 has more digits than
bfloat16, and loses most of its range.
Legal: always, for a middle format that holds every value of the outer one.
Error: exact.
Source: IEEE 754-2019, clause 5.4.2 (conversions); Inductor's pass for pointless casts.
"""

from lastbit.change import Change
from lastbit.formats import format_of
from lastbit.graph import Round
from lastbit.patterns import replace
from lastbit.patterns.casts import NO_NARROWED, holds_all, widened_first
from lastbit.rule import Edits, Require, Rewrite, Site, holds, rejects


def formats(site: Site) -> tuple[str, str]:
    """Return the outer and the middle format."""
    narrow, wide, _ = widened_first(site)
    return narrow.rounding.format.short, wide.rounding.format.short


def rewrite(site: Site) -> Edits:
    """Take the value as it was."""
    narrow, _, x = widened_first(site)
    return {site.name: replace(site.node, narrow, Round(x, narrow.rounding))}


RULE = Rewrite(
    code="CVT402",
    name="elide-wide-narrow",
    claim=Change.BITWISE,
    prose=__doc__,
    graph="""
        x: bf16[N]
        w: f32 = x
        y: bf16 = w
        h: f16 = x
        z: bf16 = h
        d: bf16 = x * 2
    """,
    at=("y",),
    sizes={"N": 1},
    rewrite=rewrite,
    requires=(
        Require(
            "the middle format holds every value of the outer one",
            lambda site: holds_all(*map(format_of, reversed(formats(site)))),
            lambda site: " in ".join(formats(site)),
        ),
    ),
    examples=(
        holds(x=3),
        holds(x="0x1.fep+127"),  # the largest bf16
        holds(x="0x1p-133"),  # the smallest
        rejects("the middle format holds every value of the outer one", at=("z",), x="0x1p+20"),
        rejects(NO_NARROWED, at=("d",), x=1),
    ),
    title=lambda site: f"`{site.name}` is no longer widened to {formats(site)[1]} on the way",
)
