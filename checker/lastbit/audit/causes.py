"""Say why the results of an operator differ: which order, schedule, race or number of threads.

A cause is named only where it is shown: two different trees, two different schedules, several
results of identical calls, results that follow the number of threads. Else it was not found.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from lastbit.audit.bits import Different, same
from lastbit.audit.case import Case
from lastbit.audit.racing import known_to_race, sums_race
from lastbit.audit.records import Cause
from lastbit.audit.row_results import Pair, flat_places, pair_of
from lastbit.audit.sides import RUNS, SECONDS, Limits, Side, Sides
from lastbit.audit.taking import Rows
from lastbit.audit.tensor_values import format_of_tensor
from lastbit.audit.threads import number_of_threads, with_threads
from lastbit.report.words import plural

__all__ = [
    "RUNS",
    "SECONDS",
    "Limits",
    "batch_cause",
    "position_cause",
    "repeats_cause",
    "threads_cause",
]

NOT_FOUND: Final = "cause not found"
FEW: Final = 3  # identical calls, before two different ones are compared


def batch_cause(
    case: Case, before: int, after: int, row: int = 0, limits: Limits | None = None
) -> Cause:
    """Return why a row of the batch has other bits at two batch sizes.

    Args:
        case: the operator.
        before: the one size.
        after: the other size.
        row: the row, which both sizes have.
        limits: of the search.

    Raises:
        NotSeparableError: the operator cannot be run on some rows.
    """
    limits = limits or Limits()
    for size in (before, after):
        if different_results(case, size, FEW) > 1:
            return repeats_cause(case, size, limits.runs)
    runs = tuple(_Run(f"in a batch of {size}", size, row) for size in (before, after))
    found = _between(case, runs, limits)
    if found is None and row:
        found = _moved_cause(case, row, limits)
    return found or _unknown([f"the bits of row {row} are the same in both batches"])


@dataclass(frozen=True, slots=True)
class _Run:
    """One run: what sets it apart, its rows, and the place of the row in it."""

    words: str
    rows: Rows
    place: int

    def results(self, case: Case) -> tuple[Any, ...]:
        """Return the results for the row."""
        return case.rows_of(case.run(self.rows), [self.place])


def _between(case: Case, runs: Sequence[_Run], limits: Limits) -> Cause | None:
    """Return why a row has other bits in two runs; None where it has the same."""
    results = [run.results(case) for run in runs]
    pair = pair_of(case, results[0], results[1])
    if pair is None or not len(pair.differing):
        return _of_other_formats(*results)
    first, second = (
        Side(run.words, run.rows, _ordered(case, run.rows, run.place, pair)) for run in runs
    )
    sides = Sides(case, (first, second), pair.number, limits)
    found = sides.cause()
    if found is not None:
        return found
    if sides.unordered:
        return repeats_cause(case, runs[1].rows, limits.runs)
    if number_of_threads(case.device) > 1:
        with with_threads(1):
            alone = pair_of(case, *[run.results(case) for run in runs])
        if alone is not None and not len(alone.differing):
            text = "threads divide the work by the batch size; one thread gives one result"
            return Cause("threads", text)
    return _unknown(sides.reasons)


def _of_other_formats(first: Sequence[Any], second: Sequence[Any]) -> Cause | None:
    """Return that results differ which are no floating-point numbers; None where none differ."""
    formats = [
        str(x.dtype).removeprefix("torch.")
        for x, y in zip(first, second, strict=True)
        if not same((x,), (y,)) and format_of_tensor(x) is None
    ]
    if not formats:
        return None
    listed = ", ".join(dict.fromkeys(formats))
    return _unknown([f"what differs is of {listed}, and no order of a sum is asked for there"])


def _moved_cause(case: Case, row: int, limits: Limits) -> Cause | None:
    """Return why a row has other bits alone than in the batch; None where it has the same.

    It is put first, and the number of rows with it is what differs; else its place is.
    """
    order = [row, *(n for n in range(case.size) if n != row)]

    def run(size: int) -> _Run:
        return _Run(f"in a batch of {size} with row {row} first", order[:size], 0)

    alone, low, high = run(1).results(case), 1, case.size
    if not same(alone, run(high).results(case)):
        while high - low > 1:
            middle = (low + high) // 2
            if same(alone, run(middle).results(case)):
                low = middle
            else:
                high = middle
        return _between(case, (run(low), run(high)), limits)
    there = _Run(f"at place {row} of {case.size}", case.size, row)
    return _between(case, (_Run("alone", [row], 0), there), limits)


def position_cause(case: Case, place: int, limits: Limits | None = None) -> Cause:
    """Return why row 0 has other bits at another place of the batch.

    Args:
        case: the operator.
        place: the other place.
        limits: of the search.

    Raises:
        NotSeparableError: the operator cannot be run on some rows.
    """
    rows = [*range(1, place + 1), 0, *range(place + 1, case.size)]
    parts = [case.rows_of(case.run(case.size), [0]), case.rows_of(case.run(rows), [place])]
    pair = pair_of(case, *parts)
    if pair is None or not len(pair.differing):
        same_bits = f"the bits of row 0 are the same at place {place}"
        return _of_other_formats(*parts) or _unknown([same_bits])
    first, second = (
        Side(f"at place {where}", case.size, _ordered(case, case.size, where, pair))
        for where in (0, place)
    )
    sides = Sides(case, (first, second), pair.number, limits or Limits())
    return sides.cause() or _unknown(sides.reasons)


def repeats_cause(case: Case, rows: Rows | None = None, runs: int = RUNS) -> Cause:
    """Return why identical calls give different results.

    Args:
        case: the operator.
        rows: of the batch, as in `Case.arguments`; null: the whole one.
        runs: identical calls.
    """
    many = different_results(case, rows, runs)
    if many < 2:
        return _unknown([f"{runs} identical calls gave one result"])
    known = f"a set of {many} results or more"
    text = f"{many} different results in {runs} identical calls"
    if number_of_threads(case.device) > 1:
        with with_threads(1):
            alone = different_results(case, rows, runs)
        if alone == 1:
            text += ", and one with one thread: threads add in the order in which they come"
            return Cause("atomics", text, known, "one result")
    races = known_to_race(case)
    if not races and not sums_race(case, rows, runs):
        why = "nothing shows that it adds in no fixed order"
        return Cause("unknown", f"{NOT_FOUND}: {text}, and {why}", known)
    text += ": it adds in no fixed order"
    if races and case.device.startswith("cuda"):
        text += ", as atomic additions do"
    return Cause("atomics", text, known)


def threads_cause(case: Case, counts: Sequence[int], limits: Limits | None = None) -> Cause:
    """Return how the results follow the number of threads.

    Args:
        case: the operator.
        counts: the numbers of threads that are tried.
        limits: of the search for the orders.
    """
    results, different, numbers = [], Different(), []
    for count in counts:
        with with_threads(count):
            results.append(case.run())
        numbers.append(different.number(results[-1]))
    number = len(different.kept)
    if number < 2:
        return _unknown([f"one result with {_listed(counts)} threads"])
    groups = [
        _listed([c for c, n in zip(counts, numbers, strict=True) if n == i]) for i in range(number)
    ]
    text = f"{number} different results with {' | '.join(groups)} threads"
    other = numbers.index(1)
    pair = pair_of(case, results[0], results[other], whole=True)
    if pair is None or not len(pair.differing):
        return Cause("threads", text)
    first, second = (
        Side(f"with {plural(count, 'thread')}", None, pair.differing, count)
        for count in (counts[0], counts[other])
    )
    found = Sides(case, (first, second), pair.number, limits or Limits()).cause()
    if found is None:
        return Cause("threads", text)
    return Cause("threads", f"{text}: {found.text}", found.before, found.after)


def different_results(case: Case, rows: Rows | None, runs: int) -> int:
    """Return how many different results so many identical calls give."""
    different = Different()
    for _ in range(runs):
        different.number(case.run(rows))
    return len(different.kept)


def _ordered(
    case: Case, rows: Rows, row: int, pair: Pair
) -> np.ndarray[tuple[int], np.dtype[np.intp]]:
    """Return the places of a row in the whole result, those whose bits differ first."""
    same = np.setdiff1d(np.arange(pair.before.size), pair.differing)
    order = np.concatenate((pair.differing, same))
    return flat_places(case, rows, row, pair.number)[order]


def _unknown(reasons: Sequence[str]) -> Cause:
    known = "; ".join(dict.fromkeys(reasons))
    return Cause("unknown", f"{NOT_FOUND}: {known}" if known else NOT_FOUND)


def _listed(numbers: Sequence[int]) -> str:
    return ", ".join(map(str, numbers))
