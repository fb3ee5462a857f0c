"""Assert that two arrays have the same bits, or are a few ulp of a named format apart."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Literal

from lastbit.asserting import journal
from lastbit.asserting.refusing import (
    RefusedComparisonError,
    check_reason,
    copy_would_pass,
    same_memory,
    trivial,
    zeros_would_pass,
)
from lastbit.codec import to_plain
from lastbit.comparing import compare
from lastbit.comparing.arrays import tensor_of
from lastbit.comparing.records import Comparison
from lastbit.comparing.tensors import Tensor
from lastbit.comparing.text import render
from lastbit.errors import InputError, Problem
from lastbit.formats import format_of


def assert_bitwise(
    a: Any, b: Any, *, inputs: Sequence[Any] = (), trivial_because: str | None = None
) -> None:
    """Assert that two arrays have the same type, shape and bits.

    Args:
        a: of numpy, of torch on any device, or with DLPack.
        b: the other.
        inputs: what they were computed from, so that a copy of one does not pass for a result.
        trivial_because: why the values must be such that a wrong result would pass.

    Raises:
        AssertionError: a bit differs; the text counts them and shows the worst element.
        RefusedComparisonError: zeros, NaN, one number everywhere or a copy of an input would pass.
        InputError: one is no array.
    """
    __tracebackhide__ = True
    _compared("assert_bitwise", a, b, {}, "the bits differ", inputs, trivial_because)


def assert_ulp(
    a: Any,
    b: Any,
    *,
    max_ulp: float,
    format: str,  # noqa: A002 - the field's word
    scale: Literal["tensor", "row", "column"] | None = None,
    inputs: Sequence[Any] = (),
    trivial_because: str | None = None,
) -> None:
    """Assert that two arrays of a format are at most so many ulp of it apart.

    Zeros of either sign are equal; NaN is equal to NaN alone.

    Args:
        a: of numpy, of torch on any device, or with DLPack.
        b: the other.
        max_ulp: the greatest distance that passes.
        format: the type of both, as `bf16`; or what unsigned integers stand for.
        scale: count in ulp at the largest magnitude of the tensor, row or column.
        inputs: what they were computed from, so that a copy of one does not pass for a result.
        trivial_because: why the values must be such that a wrong result would pass.

    Raises:
        AssertionError: an element is farther apart; the text shows the worst.
        RefusedComparisonError: zeros, NaN, one number everywhere or a copy of an input would pass.
        InputError: one is no array, or its elements are not of the format.
    """
    __tracebackhide__ = True
    fmt = format_of(format).short
    if isinstance(max_ulp, bool) or not isinstance(max_ulp, int | float):
        raise InputError([Problem(f"max_ulp={max_ulp!r} is no number", "Write max_ulp=1.")])
    if not 0 <= max_ulp < math.inf:
        raise InputError([Problem(f"max_ulp={max_ulp!r} is no bound", "Write max_ulp=1.")])
    options = {"format": fmt, "max_ulp": max_ulp, "scale": scale}
    unit = f"{max_ulp:g} ulp of {fmt}{f' at the largest of the {scale}' if scale else ''}"
    headline = f"farther apart than {unit}"
    _compared("assert_ulp", a, b, options, headline, inputs, trivial_because)


def _compared(
    assertion: str,
    a: Any,
    b: Any,
    options: dict[str, Any],
    headline: str,
    inputs: Sequence[Any],
    because: str | None,
) -> None:
    __tracebackhide__ = True
    check_reason(because)
    found = compare(a, b, **options)
    fmt = options.get("format")
    (one,) = found.tensors
    if fmt is not None and one.format not in (None, fmt):
        message = f"both sides have elements of {one.format}, and ulp of {fmt} are to be counted"
        raise InputError([Problem(message, f"Convert both to {fmt}, or write {one.format!r}.")])
    reason = "" if because or not found.passes else _refusal(a, b, options, inputs)
    outcome = "refused" if reason else "passed" if found.passes else "failed"
    note(assertion, outcome, [found], options, because, reason)
    if reason:
        raise RefusedComparisonError(assertion, reason)
    if not found.passes:
        raise AssertionError(f"{headline} ({assertion})\n{render(found).rstrip()}")


def _refusal(a: Any, b: Any, options: dict[str, Any], inputs: Sequence[Any]) -> str:
    left, right = tensor_of(a, "a"), tensor_of(b, "b")
    reason = same_memory(a, b) or trivial(left, right)
    if reason:
        return reason
    if options and zeros_would_pass(right, options):
        return f"zeros are within {options['max_ulp']:g} ulp of {options['format']} as well"
    return copied(inputs, right, options, "inputs")


def copied(inputs: Sequence[Any], result: Tensor, options: dict[str, Any], what: str) -> str:
    """Return which input a result is a copy of, or within what is allowed; else an empty text."""
    for number, given in enumerate(inputs):
        name = f"{what}[{number}]" if len(inputs) > 1 else what
        if copy_would_pass(given, name, result, options):
            return f"a copy of `{name}` would pass as well"
    return ""


def note(
    assertion: str,
    outcome: str,
    comparisons: Sequence[Comparison],
    options: dict[str, Any],
    because: str | None,
    reason: str = "",
    runs: dict[str, Any] | None = None,
) -> None:
    """Note an assertion in the session's report."""
    allowed = {"max_ulp": options["max_ulp"], "format": options["format"]} if options else None
    if allowed and options["scale"]:
        allowed["scale"] = options["scale"]
    journal.note(
        {
            "assertion": assertion,
            "outcome": outcome,
            "refused_because": reason or None,
            "trivial_because": because,
            "allowed": allowed,
            "runs": runs,
            "comparisons": [to_plain(one) for found in comparisons for one in found.tensors],
        }
    )
