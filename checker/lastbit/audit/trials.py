"""What is done with a case: the same call again, other batches, other rows, other threads.

Every comparison is between runs of one operator on (parts of) the inputs that it had.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from lastbit.audit.bits import Different, distance, greatest, same
from lastbit.audit.case import Case
from lastbit.audit.records import Distance, Thresholds, Trial
from lastbit.audit.refusals import REFUSALS, told
from lastbit.audit.thresholds import sizes_to_scan, thresholds

_Trial = Callable[[Case, Sequence[Any], "Asked", "Clock", "Tried"], None]

RAISED = "not tried to the end"
LEAST_REPEATS = 3
MOST_NAMED = 4
MOST_ROWS = 8  # that are run alone
MOST_FOUND = 2  # rows that are run alone because they differ elsewhere
REPLACED = ("zeros", "nan", "reversed")
IN_WORDS = {
    "zeros": "zeros in the other rows",
    "nan": "NaN in the other rows",
    "reversed": "the other rows in reverse order",
    "first": "the numbers of row 0 in every row",
}
MIXED = "its result has no rows, goes into results that have rows, and has other bits with"


@dataclass(frozen=True, slots=True)
class Asked:
    """What is asked of every case.

    Attributes:
        sizes: batch sizes, in order; the last is the number of rows that were recorded.
        repeats: how often the same call is made.
        threads: numbers of threads; the first is that of the run.
        scan: whether to look for the sizes at which bits change, beyond those named.
    """

    sizes: tuple[int, ...]
    repeats: int = 20
    threads: tuple[int, ...] = ()
    scan: bool = True


class Clock:
    """Says whether there is time left.

    Args:
        seconds: for all that is to be done; None: as long as it takes.
    """

    def __init__(self, seconds: float | None) -> None:
        self.end = None if seconds is None else time.monotonic() + seconds

    def more(self) -> bool:
        """Return whether there is time left."""
        return self.end is None or time.monotonic() < self.end

    def left(self) -> float | None:
        """Return the seconds left; None: no end."""
        return None if self.end is None else max(0.0, self.end - time.monotonic())


@dataclass
class Tried:
    """What came of the trials of one case.

    Attributes:
        trials: in order.
        thresholds: null where the batch was not varied.
        gaps: what could not be tried.
        failed: why the operator could not be run again at all, or null.
        rows: that gave other bits in a trial.
    """

    trials: list[Trial] = field(default_factory=list)
    thresholds: Thresholds | None = None
    gaps: list[str] = field(default_factory=list)
    failed: str | None = None
    rows: set[int] = field(default_factory=set)

    def differs(self, kind: str) -> bool:
        """Return whether a trial gave more than one result."""
        return any(one.kind == kind and one.differs for one in self.trials)


def tried(
    case: Case, whole: Sequence[Any], asked: Asked, clock: Clock, *, into_rows: bool = False
) -> Tried:
    """Try a case.

    Args:
        case: the operator.
        whole: the results that it gave in the run.
        asked: what is asked.
        clock: ends what takes too long.
        into_rows: whether its results, which have no rows, go into results that have rows.
    """
    found = Tried()
    found.trials.append(_repeats(case, whole, asked.repeats, clock, found))
    if found.differs("repeats"):
        if case.separable:
            found.gaps.append("not compared across batches: equal calls already give other bits")
        return found
    if case.separable:
        for trial in (_batch, _position, _alone, _others, _row_apart):
            _attempt(trial, case, whole, asked, clock, found)
    elif case.layout.mixing and into_rows:
        _attempt(_mixed, case, whole, asked, clock, found)
    if len(asked.threads) > 1 and case.device == "cpu":
        _attempt(_threads, case, whole, asked, clock, found)
    return found


def _attempt(
    trial: _Trial, case: Case, whole: Sequence[Any], asked: Asked, clock: Clock, found: Tried
) -> None:
    """Run a trial; where the operator refuses, that is a gap with its reason."""
    try:
        trial(case, whole, asked, clock, found)
    except REFUSALS as error:
        found.gaps.append(f"{RAISED}: it raised {told(error)}")


def _repeats(case: Case, whole: Sequence[Any], repeats: int, clock: Clock, found: Tried) -> Trial:
    different = Different()
    numbers = [different.number(whole)]
    for number in range(repeats - 1):
        if number >= LEAST_REPEATS - 1 and not clock.more():
            found.gaps.append(f"{len(numbers)} of {repeats} equal calls were made in the time")
            break
        numbers.append(different.number(case.run()))
    runs = tuple(range(1, len(numbers) + 1))
    count = len(different.kept)
    return Trial("repeats", runs, tuple(numbers), count, different.distance())


def _batch(case: Case, whole: Sequence[Any], asked: Asked, clock: Clock, found: Tried) -> None:
    different = Different()
    known: dict[int, int] = {}
    apart: dict[int, tuple[int, ...]] = {}
    distances: list[Distance] = []

    def result(size: int) -> int:
        if size not in known:
            results = tuple(whole) if size == case.size else case.run(size)
            known[size] = different.number(case.rows_of(results, [0]))
            every, same_rows = case.rows_of(results, size), case.rows_of(tuple(whole), size)
            apart[size] = case.rows_apart(every, same_rows)
            if apart[size]:
                distances.append(distance(every, same_rows))
        return known[size]

    sizes = tuple(size for size in asked.sizes if size <= case.size)
    for size in sizes:
        result(size)
    scanned = sizes_to_scan(case.size, sizes) if asked.scan else sizes
    found.thresholds = thresholds(scanned, result, clock.more, known)
    results = tuple(known[size] for size in sizes)
    found.trials.append(Trial("batch", sizes, results, len(different.kept), different.distance()))
    found.trials.append(_rows(apart, distances))
    found.rows |= {row for rows in apart.values() for row in rows}
    if found.thresholds.cut:
        tried_sizes = found.thresholds.tried
        found.gaps.append(f"{tried_sizes} batch sizes were run in the time")


def _rows(apart: Mapping[int, Sequence[int]], distances: Sequence[Distance]) -> Trial:
    """Return what came of every row of the batches that were run."""
    sizes = tuple(sorted(apart))
    differing = [size for size in sizes if apart[size]]
    note = None
    if differing:
        size = next((size for size in differing if 0 not in apart[size]), differing[0])
        note = f"{_named(apart[size])} other bits in a batch of {size:,} than in the whole one"
    numbers = tuple(int(size in differing) for size in sizes)
    return Trial("rows", sizes, numbers, len(differing), greatest(distances), note)


def _named(rows: Sequence[int]) -> str:
    """Name rows, as the subject of `other bits`."""
    if len(rows) == 1:
        return f"row {rows[0]} has"
    if len(rows) <= MOST_NAMED:
        return f"rows {', '.join(map(str, rows))} have"
    return f"{len(rows)} rows, {rows[0]} to {rows[-1]}, have"


def _alone(case: Case, whole: Sequence[Any], asked: Asked, clock: Clock, found: Tried) -> None:
    more = sorted(found.rows)[:MOST_FOUND]
    rows = tuple(sorted({*spread(case.size, MOST_ROWS), *more}))
    numbers, distances = [], []
    for row in rows:
        alone = case.rows_of(case.run([row]), [0])
        batched = case.rows_of(tuple(whole), [row])
        numbers.append(0 if same(alone, batched) else 1)
        if numbers[-1]:
            distances.append(distance(alone, batched))
            found.rows.add(row)
        if not clock.more():
            rows = rows[: len(numbers)]
            break
    found.trials.append(Trial("alone", rows, tuple(numbers), sum(numbers), greatest(distances)))


def _position(case: Case, whole: Sequence[Any], asked: Asked, clock: Clock, found: Tried) -> None:
    places = tuple(dict.fromkeys((0, case.size // 2, case.size - 1)))
    if len(places) < 2:
        return
    different = Different()
    every = case.rows_of(tuple(whole), case.size)
    numbers = [different.number(every)]
    rows: set[int] = set()
    for place in places[1:]:
        order = moved_to(place, case.size)
        back = [order.index(row) for row in range(case.size)]
        moved = case.rows_of(case.run(order), back)
        numbers.append(different.number(moved))
        if numbers[-1]:
            rows |= {*case.rows_apart(every, moved)}
    found.rows |= rows
    note = f"{_named(sorted(rows))} other bits at another place" if rows else None
    distances = different.distance()
    found.trials.append(
        Trial("position", places, tuple(numbers), len(different.kept), distances, note)
    )


def _others(case: Case, whole: Sequence[Any], asked: Asked, clock: Clock, found: Tried) -> None:
    if case.size < 2:
        return
    numbers, notes = [0], []
    distances: list[Distance] = []
    for keep in _keeps(case.size):
        different = Different()
        mine = case.rows_of(tuple(whole), keep)
        different.number(mine)
        known, differing, rows = max(numbers), [], set()
        for name in REPLACED if keep == [0] else REPLACED[:2]:
            if name == "reversed":
                results = case.run([0, *range(case.size - 1, 0, -1)])
            else:
                results = case.run(others=name, keep=keep)
            other = case.rows_of(results, keep)
            number = different.number(other)
            numbers.append(known + number if number else 0)
            if number:
                differing.append(IN_WORDS[name])
                rows |= {keep[place] for place in case.rows_apart(mine, other)}
        if differing:
            notes.append(f"{_named(sorted(rows))} other bits with {', '.join(differing)}")
            distances += [distance(mine, one) for one in different.kept[1:]]
            break  # one shows it
    note = notes[0] if notes else None
    values = tuple(range(len(numbers)))
    distinct = len(set(numbers))
    found.trials.append(
        Trial("others", values, tuple(numbers), distinct, greatest(distances), note)
    )


def _keeps(size: int) -> list[list[int]]:
    """Return the rows that keep their numbers: the first; the last; every second one."""
    found = [[0], [size - 1], [*range(0, size, 2)], [*range(1, size, 2)]]
    return [keep for number, keep in enumerate(found) if keep not in found[:number]]


def _mixed(case: Case, whole: Sequence[Any], asked: Asked, clock: Clock, found: Tried) -> None:
    """See whether results without rows follow the values in rows other than the first."""
    different = Different()
    numbers = [different.number(whole)]
    differing = []
    for name in ("zeros", "nan", "first"):
        results = case.run([0] * case.size) if name == "first" else case.run(others=name)
        numbers.append(different.number(results))
        if numbers[-1]:
            differing.append(IN_WORDS[name])
    note = f"{MIXED} {', '.join(differing)}" if differing else None
    values = tuple(range(len(numbers)))
    found.trials.append(
        Trial("others", values, tuple(numbers), len(different.kept), different.distance(), note)
    )


def _row_apart(case: Case, whole: Sequence[Any], asked: Asked, clock: Clock, found: Tried) -> None:
    """Look for the sizes at which another row changes, at place 0, where row 0 never does."""
    steady = found.thresholds is not None and found.thresholds.distinct == 1
    if not steady or not found.rows or found.differs("others"):
        return
    row = min(found.rows)
    turned = case.turned(row)
    again = Tried()
    _batch(turned, turned.run(), asked, clock, again)
    assert again.thresholds is not None
    found.thresholds = replace(again.thresholds, row=row)
    found.gaps += [gap for gap in again.gaps if gap not in found.gaps]
    if again.thresholds.distinct > 1:
        trials = [one for one in found.trials if one.kind != "batch"]
        found.trials = [*trials, *(one for one in again.trials if one.kind == "batch")]


def _threads(case: Case, whole: Sequence[Any], asked: Asked, clock: Clock, found: Tried) -> None:
    import torch

    different = Different()
    numbers = [different.number(whole)]
    try:
        for count in asked.threads[1:]:
            torch.set_num_threads(count)
            numbers.append(different.number(case.run()))
    finally:
        torch.set_num_threads(asked.threads[0])
    found.trials.append(
        Trial("threads", asked.threads, tuple(numbers), len(different.kept), different.distance())
    )


def moved_to(place: int, size: int) -> list[int]:
    """Return the rows of a batch with row 0 at a place, and those before it moved by one."""
    return [*range(1, place + 1), 0, *range(place + 1, size)]


def spread(size: int, most: int) -> tuple[int, ...]:
    """Return at most so many of the numbers below a size, the first and the last among them."""
    if size <= most:
        return tuple(range(size))
    return tuple(sorted({round(n * (size - 1) / (most - 1)) for n in range(most)}))
