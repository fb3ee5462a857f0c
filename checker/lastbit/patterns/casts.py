"""Find pairs of casts, and say which formats hold the values of others."""

from __future__ import annotations

from lastbit.formats import Format
from lastbit.graph import Input, Node, Round, native_rounding
from lastbit.patterns import outer_rounding, written_out
from lastbit.rounding import Rounding
from lastbit.rule import MismatchError, Site

NO_WIDENED = "the value widens a value that was narrowed"
NO_NARROWED = "the value narrows a value that was widened from its own format"
NO_WIDER = "the format holds every value of the weight"


def narrowed_first(site: Site) -> tuple[Round, Round]:
    """Return the widening at a site, and the narrowing in front of it.

    Raises:
        MismatchError: there is no such pair.
    """
    wide = outer_rounding(site.node)
    narrow = written_out(site, wide.x)
    if not isinstance(narrow, Round):
        raise MismatchError(NO_WIDENED)
    if narrow.rounding.format.precision >= wide.rounding.format.precision:
        raise MismatchError(NO_WIDENED)
    return wide, narrow


def widened_first(site: Site) -> tuple[Round, Round, Node]:
    """Return the narrowing at a site, the widening in front of it, and what was widened.

    Raises:
        MismatchError: there is no such pair.
    """
    narrow = outer_rounding(site.node)
    wide = written_out(site, narrow.x)
    own = native_rounding(wide.x) if isinstance(wide, Round) else None
    if not isinstance(wide, Round) or own is None or own.format != narrow.rounding.format:
        raise MismatchError(NO_NARROWED)
    return narrow, wide, wide.x


def weight_at(site: Site) -> Rounding:
    """Return the rounding of the input that a site names.

    Raises:
        MismatchError: it names another value.
    """
    rounding = native_rounding(site.node)
    if rounding is None or not isinstance(site.ref(site.name), Input):
        raise MismatchError("the weight is rounded")
    return rounding


def wider_weight(site: Site) -> Rounding:
    """Return the rounding to the parameter `format`, to which a weight is widened.

    Raises:
        MismatchError: the format does not hold every value of the weight.
    """
    wide = Rounding.of(site.text("format"))
    if not holds_all(wide.format, weight_at(site).format):
        raise MismatchError(NO_WIDER)
    return wide


def holds_all(wide: Format, fmt: Format) -> bool:
    """Return whether every value of a format is one of a wider format."""
    specials = ("has_inf", "has_nan", "has_negative_zero", "signed")
    return (
        wide.precision >= fmt.precision
        and wide.max_finite >= fmt.max_finite
        and wide.min_subnormal <= fmt.min_subnormal
        and all(getattr(wide, s) >= getattr(fmt, s) for s in specials)
    )
