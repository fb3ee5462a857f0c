"""CVT402 elide-wide-narrow: a value is no longer widened and narrowed again.

Why it matters: a pair of casts to a wider format and back is the identity, so removing it is
free. It is so only if the format in the middle holds every value of the outer one: binary16 has
more digits than bfloat16 and still loses most of its range.
Error: exact.
Source: IEEE 754-2019, clause 5.4.2 (conversions); Inductor's pass for pointless casts.
"""

from lastbit.change import Change
from lastbit.formats import Format
from lastbit.graph import Node, Round, native_rounding
from lastbit.patterns import outer_rounding, replace, written_out
from lastbit.rule import Edits, MismatchError, Require, Rewrite, Site, holds, rejects

NEED = "the value narrows a value that was widened from its own format"


def pair(site: Site) -> tuple[Round, Round, Node]:
    """Return the narrowing at a site, the widening in front of it, and what was widened.

    Raises:
        MismatchError: there is no such pair.
    """
    narrow = outer_rounding(site.node)
    wide = written_out(site, narrow.x)
    if not isinstance(wide, Round):
        raise MismatchError(NEED)
    own = native_rounding(wide.x)
    if own is None or own.format != narrow.rounding.format:
        raise MismatchError(NEED)
    return narrow, wide, wide.x


def holds_all(wide: Format, fmt: Format) -> bool:
    """Return whether every value of a format is one of a wider format."""
    specials = ("has_inf", "has_nan", "has_negative_zero", "signed")
    return (
        wide.precision >= fmt.precision
        and wide.max_finite >= fmt.max_finite
        and wide.min_subnormal <= fmt.min_subnormal
        and all(getattr(wide, s) >= getattr(fmt, s) for s in specials)
    )


def rewrite(site: Site) -> Edits:
    """Take the value as it was."""
    narrow, _, x = pair(site)
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
            lambda site: holds_all(pair(site)[1].rounding.format, pair(site)[0].rounding.format),
            lambda site: " in ".join(r.rounding.format.short for r in pair(site)[:2]),
        ),
    ),
    examples=(
        holds(x=3),
        holds(x="0x1.fep+127"),  # the largest bf16
        holds(x="0x1p-133"),  # the smallest
        rejects("the middle format holds every value of the outer one", at=("z",), x="0x1p+20"),
        rejects(NEED, at=("d",), x=1),
    ),
    title=lambda site: (
        f"`{site.name}` is no longer widened to {pair(site)[1].rounding.format.short} on the way"
    ),
)
