"""The user's comparison: a function of a file, or a rule of rtol and atol; and what it says."""

from __future__ import annotations

import contextlib
import sys
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from lastbit.errors import InputError, Problem
from lastbit.inference.arrays import is_torch
from lastbit.tracing.calls import exited
from lastbit.tracing.targets import load_targets

Comparator = Callable[[Any, Any], Any]


@dataclass(frozen=True, slots=True)
class Comparison:
    """A comparison to audit.

    Attributes:
        label: what the user calls it.
        call: a function (actual, expected) that raises AssertionError or returns False.
        given: what its attributes say of what it compares.
    """

    label: str
    call: Comparator
    given: Mapping[str, Any] = field(default_factory=dict)


ATTRIBUTES = ("op", "shape", "format", "acc", "budget", "library", "machine")


def load_comparison(target: str) -> Comparison:
    """Return the comparison that `file.py:name` names; the file is run.

    Raises:
        InputError: there is no such function, or its file does not run.
    """
    (call,) = load_targets(target)
    given = {name: getattr(call, name) for name in ATTRIBUTES if hasattr(call, name)}
    return Comparison(target, call, given)


def rule_of(rtol: float, atol: float) -> Comparison:
    """Return the rule |actual - expected| <= atol + rtol * |expected|, for every element.

    Shapes and types must be the same, and NaN fails, as in `torch.testing.assert_close`.
    """

    def within(actual: Any, expected: Any) -> bool:
        if actual.shape != expected.shape or actual.dtype != expected.dtype:
            return False
        a, e = (_wide(side) for side in (actual, expected))
        with np.errstate(invalid="ignore"):
            return bool((np.abs(a - e) <= atol + rtol * np.abs(e)).all())

    return Comparison(f"rtol={rtol:g}, atol={atol:g}", within)


def _wide(array: Any) -> Any:
    return array.double().numpy() if is_torch(array) else array.astype(np.float64)


def verdict(comparison: Comparison, actual: Any, expected: Any, *, told: bool = False) -> str:
    """Return how a comparison refuses a result, or an empty text where it lets it pass.

    Any exception refuses, since a test that calls it would fail; so does a returned False.

    Args:
        comparison: the user's.
        actual: what it is asked about; it may be written to.
        expected: the right result; likewise.
        told: whether to repeat the first line of an exception.

    Raises:
        InputError: what it returns is neither True nor False, or it ends the process.
    """
    try:
        with contextlib.redirect_stdout(sys.stderr), warnings.catch_warnings():
            warnings.simplefilter("ignore")  # a warning is no verdict, whatever the filters say
            returned = comparison.call(actual, expected)
    except SystemExit as error:
        raise exited(error, f"`{comparison.label}`") from error
    except Exception as error:
        said = str(error).strip().partition("\n")[0][:200].rstrip(".")
        return f"raised {type(error).__name__}{f': {said}' if told and said else ''}"
    if returned is None or _is_true(returned, comparison.label):
        return ""
    return "returned False"


def _is_true(returned: Any, label: str) -> bool:
    """Return what a comparison answered: True, False, or a scalar or object that is either."""
    if isinstance(returned, bool | np.bool_):
        return bool(returned)
    if isinstance(returned, np.ndarray) or is_torch(returned):
        if returned.shape == () and str(returned.dtype).endswith("bool"):
            return bool(returned)
    elif "__bool__" in dir(type(returned)) and not isinstance(returned, int | float | complex):
        return bool(returned)
    message = f"`{label}` returned a {type(returned).__name__}, which is neither True nor False"
    remedy = "Let it raise AssertionError, or return True or False."
    raise InputError([Problem(message, remedy)])
