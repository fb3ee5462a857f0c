"""Explain a culprit while its inputs are at hand: the cause, the side that is nearer, remedies."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from lastbit.audit.auditing import Explained
from lastbit.audit.bits import same
from lastbit.audit.case import Case
from lastbit.audit.causes import (
    SECONDS,
    Limits,
    batch_cause,
    position_cause,
    repeats_cause,
    threads_cause,
)
from lastbit.audit.judging import BATCH, OTHERS, POSITION, REPEATS, THREADS
from lastbit.audit.nearer import nearness
from lastbit.audit.records import CaseRecord, Cause, Thresholds
from lastbit.audit.remedies import remedies
from lastbit.audit.trials import REPLACED, moved_to

OTHER_ROWS = "its result for a row is computed from the values of other rows"
ALL_ROWS = "its result is computed from the values of all rows, and goes into each row"
INTEGERS = (
    "cause not found: the results that differ hold {}, and orders are sought in floating-point "
    "numbers"
)
NO_REMEDIES = "remedies were not tried: they are tried on row 0, whose bits do not change"
MOST_FOR_REMEDIES = 20.0  # seconds for one culprit
LEAST = 2.0  # seconds for the order at one size, however little time is left


def explained_with_remedies(case: Case, record: CaseRecord, seconds: float | None) -> Explained:
    """Return what is known of a culprit, and what would keep the promises that it breaks."""
    end = None if seconds is None else time.monotonic() + seconds
    found = explained(case, record, seconds)
    if OTHERS in record.codes and not case.separable:
        return found
    sizes = record.thresholds
    if BATCH in record.codes and sizes is not None and sizes.row and sizes.distinct > 1:
        case = case.turned(sizes.row)
    elif REPEATS not in record.codes and not _row_0_differs(case, record):
        return replace(found, notes=(*found.notes, NO_REMEDIES))
    kinds = [trial.kind for trial in record.trials if trial.differs]
    threads = record.trial("threads")
    left = MOST_FOR_REMEDIES if end is None else min(MOST_FOR_REMEDIES, end - time.monotonic())
    known = remedies(
        case, kinds, record.thresholds, threads.values if threads is not None else (),
        max(LEAST, left),
    )  # fmt: skip
    return replace(found, remedies=known)


def explained(case: Case, record: CaseRecord, seconds: float | None) -> Explained:
    """Return what is known of a culprit.

    Args:
        case: the operator.
        record: what its trials gave.
        seconds: the time that is left; None: as long as it takes.
    """
    limits = Limits(SECONDS if seconds is None else min(SECONDS, max(LEAST, seconds / 3)))
    if REPEATS in record.codes:
        trial = record.trial("repeats")
        runs = len(trial.values) if trial is not None else limits.runs
        return Explained(repeats_cause(case, None, max(2, runs)))
    if OTHERS in record.codes:
        return Explained(Cause("unknown", OTHER_ROWS if case.separable else ALL_ROWS))
    if BATCH in record.codes:
        return _of_batch(case, record, limits)
    if THREADS in record.codes:
        trial = record.trial("threads")
        assert trial is not None
        return Explained(threads_cause(case, trial.values))
    if POSITION in record.codes:
        return Explained(_of_position(case, record, limits))
    return Explained()  # no promise is broken whose cause is sought


def _of_position(case: Case, record: CaseRecord, limits: Limits) -> Cause:
    trial = record.trial("position")
    assert trial is not None
    place = next(at for at, n in zip(trial.values, trial.results, strict=True) if n)
    whole = case.run()
    order = moved_to(place, case.size)
    back = [order.index(row) for row in range(case.size)]
    rows = case.rows_apart(case.rows_of(whole, case.size), case.rows_of(case.run(order), back))
    if not rows:
        return Cause("unknown", "cause not found: equal calls with rows moved give other bits")
    row = rows[0]
    case = case.turned(row) if row else case  # then it is at place 0, and no longer at its own
    first = case.rows_of(case.run(), [0])
    for other in dict.fromkeys((back[row], row)):
        part = case.rows_of(case.run(moved_to(other, case.size)), [other])
        if other and case.rows_apart(first, part):
            unordered = _unordered(first, part)
            return unordered or position_cause(case, other, limits)
    return Cause("unknown", f"cause not found: row {row} has one result at places 0 and {row}")


def _of_batch(case: Case, record: CaseRecord, limits: Limits) -> Explained:
    row = named = 0
    sizes = differing_sizes(record.thresholds)
    if sizes is not None and record.thresholds is not None and record.thresholds.row:
        named = record.thresholds.row
        case = case.turned(named)
    elif sizes is None:  # no row changes its bits at place 0
        found_row = _row_of_a_size(case, record)
        if found_row is None:
            text = "cause not found: no row has other bits at place 0 of another batch"
            return Explained(Cause("unknown", text))
        row, sizes = found_row
        named = row
    before, after = sizes
    found = nearness(case, before, after, row)
    parts = [case.rows_of(case.run(size), [row]) for size in sizes]
    cause = _unordered(*parts) or batch_cause(case, before, after, row, limits)
    figures = found.distance
    notes: tuple[str, ...] = ()
    if figures is not None and figures.max_ulp_at_scale is not None:
        notes = (
            f"at {before:,} and {after:,} rows {figures.differing:,} of {figures.elements:,} "
            f"elements of row {named} differ, up to {figures.max_ulp_at_scale:.3g} ulp of "
            f"{figures.format} at the sum of absolute terms",
        )
    return Explained(cause, found.nearer, (), notes)


def _row_of_a_size(case: Case, record: CaseRecord) -> tuple[int, tuple[int, int]] | None:
    """Return a row that a smaller batch gives other bits, with the sizes of both batches."""
    trial = record.trial("rows")
    if trial is None or not trial.differs:
        return None
    size = next(size for size, n in zip(trial.values, trial.results, strict=True) if n)
    rows = case.rows_apart(case.rows_of(case.run(size), size), case.rows_of(case.run(), size))
    return (rows[0], (size, case.size)) if rows else None


def _row_0_differs(case: Case, record: CaseRecord) -> bool:
    """Return whether some trial gave other bits for row 0."""
    if any(trial.differs for trial in record.trials if trial.kind in ("batch", "threads")):
        return True
    alone = record.trial("alone")
    if alone is not None and alone.differs and alone.results[alone.values.index(0)]:
        return True
    others, position = record.trial("others"), record.trial("position")
    if others is not None and any(others.results[: 1 + len(REPLACED)]):  # those that keep row 0
        return True
    if position is None or not position.differs:
        return False
    first = case.rows_of(case.run(), [0])
    places = [place for place in position.values if place]
    return any(
        not same(first, case.rows_of(case.run(moved_to(place, case.size)), [place]))
        for place in places
    )


def _unordered(first: Sequence[Any], second: Sequence[Any]) -> Cause | None:
    """Return the cause where no floating-point numbers differ; None where some do."""
    differing = [x for x, y in zip(first, second, strict=True) if not same([x], [y])]
    if not differing or any(one.is_floating_point() for one in differing):
        return None
    kinds = sorted({"complex numbers" if one.is_complex() else "integers" for one in differing})
    return Cause("unknown", INTEGERS.format(" and ".join(kinds)))


def differing_sizes(found: Thresholds | None) -> tuple[int, int] | None:
    """Return two batch sizes, as near as they were found, at which the bits of a row differ."""
    if found is None or found.distinct < 2:
        return None
    if found.changes:
        return found.changes[0] - 1, found.changes[0]
    first, second = found.segments[:2]
    return first.last, second.first
