"""What would keep the promises that an operator breaks: tried on its own inputs, and timed.

A remedy counts as verified where the operator, run with it, passed the trials that it failed. What
does not help is said too.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final

from lastbit.audit.bits import Different
from lastbit.audit.candidates import Candidate, NotApplicableError, candidates
from lastbit.audit.case import Case
from lastbit.audit.records import Remedy, Thresholds
from lastbit.audit.refusals import told
from lastbit.audit.threads import with_threads

REPEATS: Final = 20
FEW: Final = 3  # equal calls, where these gave equal results without a remedy
MOST_SIZES: Final = 24
ROUNDS: Final = (3, 31)  # of timing, at least and at most
TIMED: Final = 1.0  # seconds for timing one remedy
LONG: Final = 3.0  # seconds of a call that is timed once
ROWWISE: Final = ("batch", "alone", "position", "others")


def remedies(
    case: Case,
    kinds: Sequence[str],
    thresholds: Thresholds | None = None,
    threads: Sequence[int] = (),
    seconds: float | None = None,
) -> tuple[Remedy, ...]:
    """Return what would keep the promises, and what would not; verified ones first, then by cost.

    Args:
        case: the operator.
        kinds: the kinds of trials in which it gave different results.
        thresholds: the batch sizes at which its bits change, where the batch was varied.
        threads: the numbers of threads that are tried.
        seconds: after which no further candidate is tried; None: all are.
    """
    end = None if seconds is None else time.monotonic() + seconds
    found: list[Remedy] = []
    for candidate in candidates(case, kinds, fixed_batches(case, thresholds)):
        if end is not None and time.monotonic() > end:
            break
        remedy = _tried(case, candidate, kinds, thresholds, threads)
        if remedy is not None:
            found.append(remedy)
    return tuple(sorted(_one_of_each(found), key=_rank))


def _rank(remedy: Remedy) -> tuple[bool, float]:
    return not remedy.verified, remedy.ratio or 0.0


def _one_of_each(found: Sequence[Remedy]) -> list[Remedy]:
    """Return the best of the remedies of each name."""
    best: dict[str, Remedy] = {}
    for one in found:
        if one.name not in best or _rank(one) < _rank(best[one.name]):
            best[one.name] = one
    return list(best.values())


def fixed_batches(case: Case, thresholds: Thresholds | None) -> tuple[int, ...]:
    """Return sizes to which batches may be fixed: the whole one, and those at which bits settle."""
    if thresholds is None or not thresholds.segments:
        return (case.size,)
    widest = max(thresholds.segments, key=lambda one: (one.last - one.first, one.first))
    first = thresholds.segments[-1].first
    sizes = (first, widest.first, widest.last, case.size)
    return tuple(dict.fromkeys(size for size in sizes if 1 < size <= case.size))


def _tried(
    case: Case,
    candidate: Candidate,
    kinds: Sequence[str],
    thresholds: Thresholds | None,
    threads: Sequence[int],
) -> Remedy | None:
    """Return what came of a candidate; None where it does not apply here."""
    text = candidate.text
    try:
        broken = next(_broken(case, candidate, kinds, thresholds), None)
        divided = _by_threads(case, candidate, kinds, threads) if broken is None else None
    except NotApplicableError:
        return None
    except Exception as error:  # of libraries and compilers
        return Remedy(candidate.name, f"{candidate.text}: it raises {told(error)}", False, None)
    if divided is not None:
        if {*kinds} == {"threads"}:
            broken = divided
        else:
            text += ", with one number of threads always"
    if broken is not None:
        return Remedy(candidate.name, f"{text}: does not help, {broken}", False, None)
    ratio = cost(
        lambda: case.run(),
        lambda: candidate.run(case),
        synchronized(case.device),
    )
    return Remedy(candidate.name, text, True, ratio)


def _broken(
    case: Case,
    candidate: Candidate,
    kinds: Sequence[str],
    thresholds: Thresholds | None,
) -> Iterator[str]:
    """Yield in which trials a candidate gives different results.

    Raises:
        NotApplicableError: it gives results of another shape or type than the operator.
    """
    once = _once(case, candidate)
    if candidate.batch is None and not _alike(once(), case.run()):
        raise NotApplicableError
    runs = REPEATS if "repeats" in kinds else FEW
    repeats = Different()
    for _ in range(runs):
        repeats.number(once())
    if len(repeats.kept) > 1:
        yield f"{len(repeats.kept)} different results in {runs} equal calls"
    if case.separable and {*ROWWISE} & {*kinds}:
        yield from _broken_by_rows(case, candidate, thresholds)


def _by_threads(
    case: Case, candidate: Candidate, kinds: Sequence[str], threads: Sequence[int]
) -> str | None:
    """Return how many results the numbers of threads give, where these were an issue."""
    if "threads" not in kinds:
        return None
    once, different = _once(case, candidate), Different()
    for count in threads:
        with with_threads(count):
            different.number(once())
    if len(different.kept) < 2:
        return None
    return f"{len(different.kept)} different results by the number of threads"


def _once(case: Case, candidate: Candidate) -> Callable[[], Sequence[Any]]:
    """Return what runs a candidate, on the whole batch or on the first of equal calls."""
    if candidate.batch is None:
        return lambda: candidate.run(case)[0]
    return lambda: candidate.row(case, range(case.size), 0)


def _broken_by_rows(
    case: Case, candidate: Candidate, thresholds: Thresholds | None
) -> Iterator[str]:
    different = Different()
    sizes = sizes_around(case.size, thresholds)
    for size in sizes:
        different.number(candidate.row(case, range(size), 0))
    if len(different.kept) > 1:
        yield f"{len(different.kept)} different results in {len(sizes)} batch sizes"
    last, every = case.size - 1, range(case.size)
    trials: list[tuple[str, Callable[[], Sequence[Any]]]] = [
        (f"at place {last}", lambda: candidate.row(case, [*every[1:], 0], last)),
        (f"at place {last // 2}", lambda: candidate.row(case, _turned(last // 2), last // 2)),
        (
            "with the other rows in reverse order",
            lambda: candidate.row(case, [0, *reversed(every[1:])], 0),
        ),
        ("with zeros in the other rows", lambda: candidate.row(case, every, 0, "zeros")),
        ("with NaN in the other rows", lambda: candidate.row(case, every, 0, "nan")),
    ]
    for words, trial in trials:
        before = len(different.kept)
        different.number(trial())
        if len(different.kept) > before:
            yield f"row 0 has other bits {words}"


def _turned(place: int) -> list[int]:
    """Return the first rows, with row 0 at a place."""
    return [*range(1, place + 1), 0]


def _alike(first: Sequence[Any], second: Sequence[Any]) -> bool:
    """Return whether results that are values have the shapes and types of the operator's."""
    return bool(first) and all(
        x.shape == y.shape and x.dtype == y.dtype for x, y in zip(first, second, strict=False)
    )


def sizes_around(size: int, thresholds: Thresholds | None) -> list[int]:
    """Return batch sizes to try: the smallest, the largest, and those around each threshold."""
    changes = () if thresholds is None else thresholds.changes
    ends = [] if thresholds is None else [e for s in thresholds.segments for e in (s.first, s.last)]
    near = {n for change in changes for n in (change - 1, change, change + 1)}
    found = sorted(n for n in {1, 2, size, *near, *ends} if 1 <= n <= size)
    if len(found) <= MOST_SIZES:
        return found
    step = (len(found) - 1) / (MOST_SIZES - 1)
    return sorted({found[round(i * step)] for i in range(MOST_SIZES)})


def synchronized(device: str) -> Callable[[], None]:
    """Return what waits until a device is done."""
    import torch

    if device.startswith("cuda"):
        return lambda: torch.cuda.synchronize(device)
    return lambda: None


def cost(own: Callable[[], object], other: Callable[[], object], wait: Callable[[], None]) -> float:
    """Return the time of a call over that of another: medians of calls made in turn."""

    def seconds(call: Callable[[], object]) -> float:
        wait()
        start = time.perf_counter()
        call()
        wait()
        return time.perf_counter() - start

    once = seconds(own) + seconds(other)  # what is made at the first call is not counted
    least = ROUNDS[0] if once < LONG else 1
    rounds = max(least, min(ROUNDS[1], int(TIMED / max(once, 1e-9))))
    pairs = [(seconds(own), seconds(other)) for _ in range(rounds)]
    medians = [statistics.median(times) for times in zip(*pairs, strict=True)]
    return medians[1] / medians[0] if medians[0] else 1.0
