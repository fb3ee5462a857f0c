"""The result of an audit: what is written as JSON, kept in a journal, merged and rendered.

A field has the same name here and in `reports/audit.schema.json`; every field is always written,
and what is not known is null. No times are kept, so equal audits give equal bytes.

    Audit
      cases: CaseRecord      one operator with one signature, and every call of it
        trials: Trial        what was varied, and how many different results that gave
        thresholds           the batch sizes at which the bits of row 0 change
        cause, nearer, remedies
      whole: Whole           the target itself, run as it is and compiled
      findings: Finding      as those of every command
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from lastbit.codec import CodecError, from_plain, to_plain
from lastbit.errors import InputError, Place, Problem
from lastbit.records import SIDES, Location, require_one_of
from lastbit.result import Finding

SCHEMA = "lastbit.audit/1"

TRIALS = ("repeats", "batch", "rows", "alone", "position", "others", "threads")
CAUSES = ("order", "schedule", "atomics", "threads", "dropped-rounding", "unknown")


@dataclass(frozen=True, slots=True)
class Distance:
    """How far apart results are that should be equal.

    Attributes:
        format: of the results; a format that has no ulp is named all the same.
        elements: how many were compared.
        differing: how many have other bits, in the pair of results where most have.
        max_ulp: the greatest distance in ulp of the result; null without finite floating-point
            numbers that differ.
        max_ulp_at_scale: the same in ulp of the format at the largest number of the result.
    """

    format: str
    elements: int
    differing: int
    max_ulp: int | None
    max_ulp_at_scale: float | None


@dataclass(frozen=True, slots=True)
class Trial:
    """One thing that was varied.

    Attributes:
        kind: `repeats` (the same call), `batch` (row 0 in batches of other sizes), `rows` (every
            row of these batches against the same row of the whole one), `alone` (single rows
            against the same rows in the batch), `position` (every row, with row 0 moved to other
            places of the batch), `others` (other values in the other rows), `threads`.
        values: batch sizes, rows, places, numbers of threads, or numbers of runs.
        results: for each of these, the number of the result among the different ones, from 0.
        distinct: how many different results there are; for `alone` and `rows`, how many of the
            values have rows that differ.
        distance: between the results; null where there is one result.
        note: a further sentence, or null.
    """

    kind: str
    values: tuple[int, ...]
    results: tuple[int, ...]
    distinct: int
    distance: Distance | None = None
    note: str | None = None

    def __post_init__(self) -> None:
        require_one_of(self.kind, TRIALS, "kind")

    @property
    def differs(self) -> bool:
        """Return whether there is more than one result."""
        return self.distinct > (0 if self.kind in ("alone", "rows") else 1)


@dataclass(frozen=True, slots=True)
class Segment:
    """Batch sizes that gave the same bits for row 0, next to each other among those tried.

    Attributes:
        first: the smallest.
        last: the largest.
        result: number of the result, from 0 in the order of the sizes.
    """

    first: int
    last: int
    result: int


@dataclass(frozen=True, slots=True)
class Thresholds:
    """The batch sizes at which the bits of a row change, row 0 if it is not said otherwise.

    Attributes:
        tried: how many sizes were run.
        largest: the largest of them; the smallest is 1.
        distinct: how many different results.
        changes: sizes whose bits differ from those of the size before, which was run too.
        segments: in order of the sizes; between the last of one and the first of the next nothing
            was run, unless they are neighbours.
        complete: whether every size up to the largest was run.
        cut: whether the time limit ended the search.
        row: which row this is of; it is moved to place 0.
    """

    tried: int
    largest: int
    distinct: int
    changes: tuple[int, ...]
    segments: tuple[Segment, ...]
    complete: bool
    cut: bool = False
    row: int = 0


@dataclass(frozen=True, slots=True)
class Cause:
    """Why the results differ.

    Attributes:
        kind: `order` of a sum, `schedule` of a product, `atomics`, `threads`, `dropped-rounding`
            by a compiler, or `unknown`: not found.
        text: one sentence.
        before: the order or schedule on the one side, or null.
        after: that on the other side, or null.
    """

    kind: str
    text: str
    before: str | None = None
    after: str | None = None

    def __post_init__(self) -> None:
        require_one_of(self.kind, CAUSES, "kind")


@dataclass(frozen=True, slots=True)
class Nearer:
    """Which of two results is nearer the exact value.

    Attributes:
        side: `before`, `after` or `neither`; null where the exact value is not known.
        before_error_ulp: mean distance of the one from the exact value, or null.
        after_error_ulp: that of the other, or null.
        format: whose ulp are meant, or null.
        rows: how many values were compared.
        why: why nothing is known, or null.
    """

    side: str | None
    before_error_ulp: float | None
    after_error_ulp: float | None
    format: str | None
    rows: int
    why: str | None = None

    def __post_init__(self) -> None:
        require_one_of(self.side, (*SIDES, "neither"), "side")


@dataclass(frozen=True, slots=True)
class Remedy:
    """What would keep the promise.

    Attributes:
        name: short (`fixed-batch`).
        text: one sentence.
        verified: whether the case was run with it, and kept the promise.
        ratio: its time over the operator's own, or null where it was not measured.
    """

    name: str
    text: str
    verified: bool
    ratio: float | None


@dataclass(frozen=True, slots=True)
class Call:
    """One call of an operator in the run.

    Attributes:
        index: its number among all calls.
        path: of the module, or empty.
        place: `file:line` of the user's source, or null.
    """

    index: int
    path: str
    place: str | None


@dataclass(frozen=True, slots=True)
class CaseRecord:
    """An operator with one signature.

    Attributes:
        key: its operator and arguments as a text; unique in the result.
        number: from 0, in the order in which the target first reaches the cases.
        operator: its name (`aten.mm.default`).
        device: where it ran.
        size: the rows of the batch.
        calls: every call with this signature; the first was audited.
        trials: what was varied.
        thresholds: null where the batch was not varied.
        codes: of the promises that it breaks.
        cause: null where nothing is broken.
        nearer: null where there is no pair of results.
        remedies: what would keep the promise.
        gaps: what could not be tried, each with its reason.
        notes: further sentences for the reader.
        decided: whether every promise that applies was tried.
    """

    key: str
    number: int
    operator: str
    device: str
    size: int
    calls: tuple[Call, ...]
    trials: tuple[Trial, ...] = ()
    thresholds: Thresholds | None = None
    codes: tuple[str, ...] = ()
    cause: Cause | None = None
    nearer: Nearer | None = None
    remedies: tuple[Remedy, ...] = ()
    gaps: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    decided: bool = True

    def trial(self, kind: str) -> Trial | None:
        """Return the trial of a kind, or None."""
        return next((one for one in self.trials if one.kind == kind), None)


@dataclass(frozen=True, slots=True)
class Whole:
    """The target itself.

    Attributes:
        form: `eager` or `compiled`.
        trials: as those of a case.
        notes: further sentences for the reader.
        gaps: what could not be tried.
    """

    form: str
    trials: tuple[Trial, ...]
    notes: tuple[str, ...] = ()
    gaps: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Audit:
    """What an audit found; the JSON document.

    Attributes:
        target: as the user named it.
        device: `cpu` or `cuda`.
        batch: what counts rows, and how the batch was filled, as a text.
        sizes: the batch sizes that every case was tried with.
        repeats: how often equal calls were made.
        threads: the numbers of threads tried; the first is that of every other trial.
        environment: facts that the result depends on, as texts.
        cases: in the order in which the target first reaches them.
        known: how many cases there are, those of other shards included.
        calls: how many calls of operators were seen.
        findings: in the order of file, line and code.
        gaps: what is true of the whole audit and not of one case.
        whole: the target itself.
        shard: which part of the cases this is (`2/8`), or null.
        decided: cases decided, cases there are here.
    """

    target: str
    device: str
    batch: str
    sizes: tuple[int, ...]
    repeats: int
    threads: tuple[int, ...]
    environment: Mapping[str, str]
    cases: tuple[CaseRecord, ...]
    known: int
    calls: int
    findings: tuple[Finding, ...]
    gaps: tuple[str, ...] = ()
    whole: tuple[Whole, ...] = ()
    shard: str | None = None
    decided: tuple[int, int] = (0, 0)

    @property
    def culprits(self) -> tuple[CaseRecord, ...]:
        """Return the cases with an error among their findings."""
        keys = {f.step for f in self.findings if f.severity == "error"}
        return tuple(case for case in self.cases if case.key in keys)

    @property
    def errors(self) -> int:
        """Return the number of findings that fail the run."""
        return sum(finding.severity == "error" for finding in self.findings)

    @property
    def not_run(self) -> tuple[int, ...]:
        """Return the batch sizes that were asked for and with which the target was not run."""
        tried = [t.values for one in self.whole for t in one.trials if t.kind == "batch"]
        return tuple(n for n in self.sizes if any(n not in values for values in tried))

    @property
    def exit_code(self) -> int:
        """Return 1 when a finding fails the run or something was not decided, else 0."""
        open_ones = self.decided[0] < self.decided[1] or bool(self.not_run) or not self.known
        return int(bool(self.errors) or open_ones)


def in_order(findings: Sequence[Finding]) -> tuple[Finding, ...]:
    """Return findings in the order of file, line and code."""

    def place(f: Finding) -> tuple[Any, ...]:
        return (f.location.file, f.location.line or 0, f.code, f.step or "", f.message)

    return tuple(sorted(findings, key=place))


def location_of(case: CaseRecord, target: str) -> Location:
    """Return the place of the first call of a case."""
    place = case.calls[0].place if case.calls else None
    file, colon, line = (place or "").rpartition(":")
    return Location(file, int(line)) if colon else Location(target)


def to_json(audit: Audit) -> dict[str, Any]:
    """Return the JSON document of an audit; equal audits give equal documents."""
    plain = to_plain(audit)
    codes = Counter(finding.code for finding in audit.findings)
    summary = {
        "cases": len(audit.cases),
        "culprits": [case.key for case in audit.culprits],
        "findings": len(audit.findings),
        "errors": audit.errors,
        "codes": dict(sorted(codes.items())),
    }
    return {"schema": SCHEMA, "command": "audit", **plain, "summary": summary}


def from_json(document: Any, file: str = "") -> Audit:
    """Return the audit that a JSON document holds.

    Raises:
        InputError: the document is no audit of this schema; the text says where and why.
    """
    given = document.get("schema") if isinstance(document, dict) else None
    try:
        if given != SCHEMA:
            raise CodecError("schema", f"must be {SCHEMA!r}, not {given!r}")
        return from_plain(Audit, document)
    except CodecError as error:
        remedy = "Make one with `lastbit audit TARGET --output json=FILE`."
        raise InputError([Problem(str(error), remedy, Place(file))]) from error
