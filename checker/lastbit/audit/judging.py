"""From the trials of a case to its record: which promises it breaks, and what was not decided."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from lastbit.audit.case import Case
from lastbit.audit.recording import short_name
from lastbit.audit.records import Call, CaseRecord, Thresholds, location_of
from lastbit.audit.trials import RAISED, Tried
from lastbit.result import Finding

BATCH, REPEATS, THREADS = "DET650", "DET651", "DET652"
POSITION, OTHERS, FAILED = "DET653", "DET654", "DET690"

SEVERITY = {
    BATCH: "error", REPEATS: "error", THREADS: "note", POSITION: "error", OTHERS: "error",
    FAILED: "warning",
}  # fmt: skip
WORDS = {
    BATCH: "is not batch-invariant",
    REPEATS: "is not deterministic from run to run",
    THREADS: "depends on the number of threads",
    POSITION: "depends on the position in the batch",
    OTHERS: "depends on the values in other rows",
    FAILED: "could not be run again by itself",
}
NAMES_ROWS = (
    "not compared across batches: integers among its arguments may name rows of the batch, so "
    "that its rows cannot be taken apart"
)
CONSTANT = "not decided: every result is one number everywhere, so that nothing could differ"
ROWWISE = ("batch", "rows", "alone", "position", "others")


def judged(case: Case, number: int, found: Tried, naming: bool, flat: bool) -> CaseRecord:
    """Return the record of a case.

    Args:
        case: the operator.
        number: of the case.
        found: what its trials gave.
        naming: whether integers among its arguments may name rows.
        flat: whether its results are one number everywhere.
    """
    call = Call(case.index, case.path, case.place)
    trials, gaps = list(found.trials), list(found.gaps)
    notes: list[str] = []
    thresholds = found.thresholds
    if found.failed is not None:
        return CaseRecord(
            case.key, number, case.name, case.device, case.size, (call,), codes=(FAILED,),
            gaps=(f"could not be run again by itself: {found.failed}",), decided=False,
        )  # fmt: skip
    raised = [gap for gap in gaps if gap.startswith(RAISED)]
    if (
        naming
        and not case.layout.mixing
        and (raised or any(found.differs(kind) for kind in ROWWISE))
    ):
        trials = [one for one in trials if one.kind not in ROWWISE]
        thresholds = None
        gaps = [*(gap for gap in gaps if gap not in raised), NAMES_ROWS]
    if case.why_whole is not None:
        text = f"not compared across batches: {case.why_whole}"
        (notes if case.layout.outside else gaps).append(text)
    notes += [f"not compared across batches: {why}" for why in case.layout.left_out]
    different = {one.kind for one in trials if one.differs}
    if flat and not different:
        gaps.append(CONSTANT)
    return CaseRecord(
        key=case.key,
        number=number,
        operator=case.name,
        device=case.device,
        size=case.size,
        calls=(call,),
        trials=tuple(trials),
        thresholds=thresholds,
        codes=tuple(_codes(different, thresholds)),
        gaps=tuple(gaps),
        notes=tuple(notes),
        decided="repeats" in different or not gaps,
    )


def _codes(different: set[str], thresholds: Thresholds | None) -> Iterator[str]:
    if "repeats" in different:
        yield REPEATS
        return
    if "others" in different:  # then other batches hold other values, and say nothing more
        yield OTHERS
    else:
        if different & {"batch", "rows"} or (
            "alone" in different and not _by_place(different, thresholds)
        ):
            yield BATCH
        if "position" in different:
            yield POSITION
    if "threads" in different:
        yield THREADS


def _by_place(different: set[str], thresholds: Thresholds | None) -> bool:
    """Return whether a row that differs alone has the same bits at place 0 of every batch."""
    steady = thresholds is not None and thresholds.row > 0 and thresholds.distinct == 1
    return steady and "position" in different


def findings_of(case: CaseRecord, target: str) -> Iterator[Finding]:
    """Yield what a case is found guilty of."""
    for code in case.codes:
        message = f"{label_of(case)} {WORDS[code]}{_figures(case, code)}"
        yield Finding(code, SEVERITY[code], message, location_of(case, target), case.key)


def label_of(case: CaseRecord) -> str:
    """Name a case: its operator, and its module."""
    path = case.calls[0].path if case.calls else ""
    return f"`{short_name(case.operator)}`" + (f" in `{path}`" if path else "")


def _figures(case: CaseRecord, code: str) -> str:
    kinds = {REPEATS: "repeats", THREADS: "threads", POSITION: "position"}
    trial = case.trial(kinds.get(code, "batch"))
    if code == OTHERS:
        trial = case.trial("others")
        return f": {trial.note}" if trial is not None and trial.note else ""
    if trial is None:
        return ""
    what = {"repeats": "equal calls", "threads": "numbers of threads", "position": "positions"}
    tried = len(trial.values)
    if code == BATCH and case.thresholds is not None and case.thresholds.distinct > 1:
        tried, distinct = case.thresholds.tried, case.thresholds.distinct
        row = case.thresholds.row
        return f": {distinct} different results of row {row} in {tried} batch sizes"
    rows = case.trial("rows")
    if code == BATCH and rows is not None and rows.differs:
        return f": {rows.note}"
    if code == BATCH:
        alone = case.trial("alone")
        count = 0 if alone is None else alone.distinct
        return f": {count} of {len(alone.values) if alone else 0} rows differ alone"
    note = f"; {trial.note}" if trial.note else ""
    return f": {trial.distinct} different results in {tried} {what[trial.kind]}{note}"


def decided(cases: Sequence[CaseRecord]) -> tuple[int, int]:
    """Return how many cases are decided, and how many there are."""
    return sum(case.decided for case in cases), len(cases)
