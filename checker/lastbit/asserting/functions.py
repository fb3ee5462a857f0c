"""Assert that a function keeps its promises: batch invariance, and determinism.

A function is called with arrays of numpy, torch, or with DLPack, and returns one, or several in
tuples, lists and mappings. Each call gets copies, so that one that writes into its inputs does not
mislead.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from lastbit.asserting.refusing import RefusedComparisonError, check_reason, trivial
from lastbit.asserting.tensors import copied, note
from lastbit.comparing import compare
from lastbit.comparing.arrays import tensor_of
from lastbit.comparing.records import Comparison
from lastbit.comparing.text import render
from lastbit.errors import InputError, Problem
from lastbit.inference.arrays import is_torch
from lastbit.report.words import plural


def assert_batch_invariant(
    fn: Callable[..., Any],
    x: Any,
    *,
    axis: int = 0,
    out_axis: int | None = None,
    sizes: Sequence[int] | None = None,
    trivial_because: str | None = None,
) -> None:
    """Assert that a row's result does not depend on the other rows: not on their number or values.

    Rows are computed alone and in smaller batches, and held against the same rows of the whole
    batch, bit by bit: of one row the first, the middle and the last; of several the first and the
    last ones.

    Args:
        fn: called as `fn(x)`; where `x` is a tuple, as `fn(*x)`.
        x: an array with all rows, or a tuple of arrays that all have them.
        axis: the axis of the rows.
        out_axis: the axis of the rows in what is returned; that of `x` if null.
        sizes: the smaller batches to try; if null the powers of two below the number of rows, and
            one row less than all.
        trivial_because: why the values must be such that a wrong result would pass.

    Raises:
        AssertionError: a bit differs; the text shows at which sizes, and the worst element.
        RefusedComparisonError: the result is zero, NaN, one number everywhere or a copy of `x`, or
            every row of `x` or of the result is the same.
        InputError: there is one row, or what is returned has no such rows.
    """
    __tracebackhide__ = True
    name = "assert_batch_invariant"
    check_reason(trivial_because)
    arrays = _arrays(x)
    rows = _rows(arrays, axis)
    whole = _results(fn, arrays)
    out = axis if out_axis is None else out_axis
    for result in whole:
        _check_rows(result, out, rows)
    reason = "" if trivial_because else _refusal(arrays, whole) or _same_rows(arrays, axis, "`x`")
    reason = "" if trivial_because else reason or _same_rows(tuple(whole), out, "the result")
    trials = [] if reason else list(_trials(fn, arrays, whole, axis, out, _windows(rows, sizes)))
    wrong = [trial for trial in trials if not trial.found.passes]
    outcome = "refused" if reason else "failed" if wrong else "passed"
    tried = sorted({trial.size for trial in trials})
    differ = sorted({trial.size for trial in wrong})
    runs = {"rows": rows, "sizes": tried, "differ": differ}
    note(name, outcome, [t.found for t in trials], {}, trivial_because, reason, runs)
    if reason:
        raise RefusedComparisonError(name, reason)
    if wrong:
        same = [size for size in tried if size not in differ]
        told = f"other bits in batches of {_listed(differ)} than in one of {rows}"
        told += f"; the same in those of {_listed(same)}" if same else ""
        raise AssertionError(
            f"rows depend on the batch ({name})\n    sizes     {told}\n"
            f"{render(wrong[0].found).rstrip()}"
        )


def assert_deterministic(
    fn: Callable[..., Any], x: Any, *, repeats: int = 20, trivial_because: str | None = None
) -> None:
    """Assert that a function gives the same bits in every run.

    Args:
        fn: called as `fn(x)`; where `x` is a tuple, as `fn(*x)`.
        x: an array, or a tuple of arrays.
        repeats: how often it runs in all.
        trivial_because: why the values must be such that a wrong result would pass.

    Raises:
        AssertionError: a run gives other bits than the first; the text shows the worst element.
        RefusedComparisonError: the result is zero, NaN, one number everywhere or a copy of `x`.
        InputError: fewer than two runs are asked for, or what is returned is no array.
    """
    __tracebackhide__ = True
    name = "assert_deterministic"
    check_reason(trivial_because)
    if isinstance(repeats, bool) or not isinstance(repeats, int) or repeats < 2:
        problem = Problem(f"repeats={repeats!r} compares nothing", "Run it at least twice.")
        raise InputError([problem])
    arrays = _arrays(x)
    first = _results(fn, arrays)
    reason = "" if trivial_because else _refusal(arrays, first)
    wrong: dict[int, list[Comparison]] = {}
    shown: list[Comparison] = []
    for run in range(2, 2 if reason else repeats + 1):
        again = _results(fn, arrays)
        _check_count(again, first)
        pairs = zip(first, again, strict=True)
        found = [_named(compare(a, b), f"run 1 / run {run}") for a, b in pairs]
        differ = [one for one in found if not one.passes]
        if differ:
            wrong[run] = differ
        shown = shown if shown and not (differ and len(wrong) == 1) else found
    outcome = "refused" if reason else "failed" if wrong else "passed"
    runs = {"repeats": repeats, "differ": sorted(wrong)}
    note(name, outcome, shown, {}, trivial_because, reason, runs)
    if reason:
        raise RefusedComparisonError(name, reason)
    if wrong:
        number, found = next(iter(wrong.items()))
        told = f"{len(wrong)} of {plural(repeats - 1, 'run')} after the first gave other bits"
        raise AssertionError(
            f"runs differ ({name})\n    runs      {told}, run {number} before the others\n"
            f"{render(found[0]).rstrip()}"
        )


@dataclass(frozen=True, slots=True)
class _Trial:
    """A smaller batch that was computed.

    Attributes:
        size: how many rows.
        found: its result against the same rows of the whole.
    """

    size: int
    found: Comparison


def _trials(
    fn: Callable[..., Any],
    arrays: tuple[Any, ...],
    whole: list[Any],
    axis: int,
    out: int,
    windows: list[tuple[int, int]],
) -> Iterator[_Trial]:
    for start, stop in windows:
        part = tuple(_cut(array, axis, start, stop) for array in arrays)
        results = _results(fn, part)
        _check_count(results, whole)
        for alone, batch in zip(results, whole, strict=True):
            _check_rows(alone, out, stop - start)
            found = compare(_cut(batch, out, start, stop), alone)
            rows = f"row {start}" if stop - start == 1 else f"rows {start} to {stop - 1}"
            yield _Trial(stop - start, _named(found, f"{rows} in the batch / alone"))


def _windows(rows: int, sizes: Sequence[int] | None) -> list[tuple[int, int]]:
    if sizes is None:
        powers = [1 << n for n in range(rows.bit_length()) if 1 << n < rows]
        sizes = sorted({*powers, rows - 1})
    found: list[tuple[int, int]] = []
    for size in sizes:
        if isinstance(size, bool) or not isinstance(size, int) or not 0 < size < rows:
            message = f"sizes={list(sizes)!r} holds {size!r}"
            raise InputError([Problem(message, f"Sizes may be 1 to {rows - 1}.")])
        starts = {0, rows // 2, rows - 1} if size == 1 else {0, rows - size}
        found += [(start, start + size) for start in sorted(starts)]
    if not found:
        raise InputError([Problem("sizes=[] compares nothing", "Leave it out, or name sizes.")])
    return found


def _arrays(x: Any) -> tuple[Any, ...]:
    arrays = tuple(x) if isinstance(x, tuple | list) else (x,)
    if not arrays:
        raise InputError([Problem("`x` holds no array", "Give an array, or a tuple of them.")])
    for number, array in enumerate(arrays):
        tensor_of(array, f"x[{number}]" if len(arrays) > 1 else "x")  # refuses what is none
    return arrays


def _rows(arrays: tuple[Any, ...], axis: int) -> int:
    found = []
    for array in arrays:
        shape = tuple(getattr(array, "shape", ()))
        if not -len(shape) <= axis < len(shape):
            message = f"an input of shape {list(shape)} has no axis {axis}"
            raise InputError([Problem(message, "Name the axis of the rows: axis=0.")])
        found.append(int(shape[axis]))
    if len(set(found)) > 1:
        message = f"the inputs have {', '.join(map(str, found))} rows along axis {axis}"
        raise InputError([Problem(message, "Close over what is no batch: lambda x: fn(x, w).")])
    if found[0] < 2:
        message = f"`x` has {plural(found[0], 'row')} along axis {axis}, so nothing is compared"
        raise InputError([Problem(message, "Give a batch of at least two rows.")])
    return found[0]


def _check_rows(result: Any, axis: int, rows: int) -> None:
    shape = tuple(result.shape)
    if not -len(shape) <= axis < len(shape) or shape[axis] != rows:
        message = f"a result for {plural(rows, 'row')} has shape {list(shape)}, and so not as many"
        remedy = "Name the axis of the rows in the result: out_axis=1."
        raise InputError([Problem(f"{message} along axis {axis}", remedy)])


def _check_count(results: list[Any], first: list[Any]) -> None:
    if len(results) != len(first):
        message = f"one run returned {plural(len(first), 'array')}, another {len(results)}"
        raise InputError([Problem(message, "Return as many arrays in every run.")])


def _results(fn: Callable[..., Any], arrays: tuple[Any, ...]) -> list[Any]:
    """Return copies of the arrays that a function returns for copies of its inputs."""
    found = [_copy(one) for one in _leaves(fn(*map(_copy, arrays)))]
    if not found:
        message = "the function returned no arrays, so nothing was compared"
        raise InputError([Problem(message, "Return what it computes.")])
    return found


def _leaves(value: Any) -> Iterator[Any]:
    if isinstance(value, Mapping):
        value = list(value.values())
    if isinstance(value, tuple | list):
        for one in value:
            yield from _leaves(one)
    elif value is not None:
        tensor_of(value, "result")  # refuses what is no array
        yield value if hasattr(value, "shape") else np.asarray(value)


def _copy(array: Any) -> Any:
    if is_torch(array):
        copy = array.detach().clone()
        return copy.requires_grad_() if array.requires_grad and array.is_leaf else copy
    if isinstance(array, np.ndarray | np.generic):
        return np.array(array)
    return array.copy() if hasattr(array, "copy") else array


def _cut(array: Any, axis: int, start: int, stop: int) -> Any:
    """Return rows as an array of its own, laid out as a batch of that size is."""
    index = [slice(None)] * len(array.shape)
    index[axis] = slice(start, stop)
    part = array[tuple(index)]
    return part.contiguous() if is_torch(part) else part


def _same_rows(arrays: tuple[Any, ...], axis: int, what: str) -> str:
    first = [_cut(array, axis, 0, 1) for array in arrays]
    for row in range(1, arrays[0].shape[axis]):
        cuts = [_cut(array, axis, row, row + 1) for array in arrays]
        if not all(compare(a, b).equal for a, b in zip(first, cuts, strict=True)):
            return ""
    return f"every row of {what} is the same, so one taken for another would pass"


def _refusal(arrays: tuple[Any, ...], results: list[Any]) -> str:
    """Return why the first run's results say nothing, or an empty text."""
    tensors = [tensor_of(result, "result") for result in results]
    reasons = [trivial(tensor, tensor) for tensor in tensors]
    if all(reasons):
        return reasons[0].replace(" of both sides", " of the result")
    copies = [copied(arrays, tensor, {}, "x") for tensor in tensors]
    return copies[0] if all(copies) else ""


def _listed(sizes: list[int]) -> str:
    return ", ".join(str(size) for size in sizes)


def _named(found: Comparison, name: str) -> Comparison:
    return replace(found, tensors=tuple(replace(one, name=name) for one in found.tensors))
