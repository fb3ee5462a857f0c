"""Text for a terminal: one block for each culprit, what was not decided, and the totals.

    model.py:44  DET650 `mm` in `layers.0.mlp.down_proj`                     not batch-invariant
        aten.mm.default(bf16[256, 3072], bf16[3072, 1024] strides [1, 3072])
        sizes     2 different results of row 0 in 32 batch sizes; the bits change at 5
        drift     0.5 % of elements differ, up to 1 ulp of bf16 at scale, 2 ulp of the result
        cause     order: ...

A line with nothing to say is left out. Equal audits give equal bytes.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from lastbit.audit.judging import BATCH, OTHERS, POSITION, REPEATS, THREADS, label_of
from lastbit.audit.records import (
    Audit,
    CaseRecord,
    Cause,
    Distance,
    Nearer,
    Remedy,
    Thresholds,
    Trial,
    Whole,
    location_of,
)
from lastbit.report.words import number, percent, plural
from lastbit.result import Finding

_COLUMN = 72
_MOST_CALLS = 4
_MOST_SIZES = 8
_MOST_GAPS = 12
_COLORS = {"error": "31", "warning": "33", "note": "36"}
_SHORT = {
    BATCH: "not batch-invariant",
    REPEATS: "not deterministic",
    POSITION: "depends on position",
    OTHERS: "depends on other rows",
    THREADS: "depends on threads",
}


def render(audit: Audit, *, color: bool = False) -> str:
    """Return the report."""
    culprits = [case for case in audit.cases if any(code in _SHORT for code in case.codes)]
    blocks = [_block(case, audit, color) for case in culprits]
    loose = [f for f in audit.findings if f.step is None]
    if loose:
        blocks.append("\n".join(_finding(f, color) for f in loose))
    for about in (list(_whole(audit)), list(_gaps(audit))):
        if about:
            blocks.append("\n".join(about))
    blocks.append(last_line(audit))
    return "\n\n".join(blocks) + "\n"


def last_line(audit: Audit) -> str:
    """Return the totals: what was decided, and who breaks what."""
    parts = [f"decided {audit.decided[0]} of {plural(audit.decided[1], 'operator')}"]
    if audit.shard is not None:
        parts[0] += f" of shard {audit.shard} ({audit.known} in all)"
    culprits = plural(len(audit.culprits), "culprit")
    counts = {
        code: len({f.step for f in audit.findings if f.code == code and f.step is not None})
        for code in _SHORT
    }
    said = [f"{n} {_SHORT[code]}" for code, n in counts.items() if n]
    parts.append(f"{culprits} ({', '.join(said)})" if said else culprits)
    if audit.not_run:
        parts.append(f"as a whole not run in batches of {_listed(audit.not_run)}")
    parts.append(f"batches of {_listed(audit.sizes)}, {audit.repeats} equal runs")
    return "; ".join(parts)


def _block(case: CaseRecord, audit: Audit, color: bool) -> str:
    codes = [code for code in case.codes if code in _SHORT]
    head = f"{location_of(case, audit.target)}  {' '.join(codes)} {label_of(case)}"
    verdict = ", ".join(_SHORT[code] for code in codes)
    worst = "error" if case in audit.culprits else "note"
    lines = [f"{head:<{_COLUMN}}  {_paint(verdict, worst, color)}"]
    lines += [f"    {line}" for line in _body(case)]
    return "\n".join(lines)


def _body(case: CaseRecord) -> Iterator[str]:
    yield case.key
    if len(case.calls) > 1:
        yield _row("calls", _calls(case))
    yield from _trials(case)
    if case.nearer is not None:
        yield _row("nearer", _nearer(case.nearer))
    if case.cause is not None:
        yield _row("cause", _cause(case.cause))
    for remedy in case.remedies:
        if remedy.verified:
            yield _row("remedy", _remedy(remedy))
    refuted = [remedy.name for remedy in case.remedies if not remedy.verified]
    if refuted:
        yield _row("note", f"tried without success: {', '.join(refuted)}")
    for note in case.notes:
        yield _row("note", note)
    for gap in case.gaps:
        yield _row("gap", gap)


def _trials(case: CaseRecord) -> Iterator[str]:
    repeats = case.trial("repeats")
    if repeats is not None and repeats.differs:
        yield _row("repeats", f"{repeats.distinct} different results in {len(repeats.values)} runs")
        yield from _drift(repeats)
    if case.thresholds is not None and case.thresholds.distinct > 1:
        yield _row("sizes", _thresholds(case.thresholds))
    batch, alone = case.trial("batch"), case.trial("alone")
    if batch is not None and batch.differs:
        yield from _drift(batch)
    rows = case.trial("rows")
    if rows is not None and rows.differs and not (batch is not None and batch.differs):
        yield _row("rows", f"{rows.note}; {rows.distinct} of {len(rows.values)} sizes differ")
        yield from _drift(rows)
    if alone is not None and alone.differs:
        yield _row("alone", f"{alone.distinct} of {len(alone.values)} rows have other bits alone")
        if batch is None or not batch.differs:
            yield from _drift(alone)
    position, threads = case.trial("position"), case.trial("threads")
    for trial, what in (
        (position, "with row 0 at places"), (threads, "at numbers of threads"),
    ):  # fmt: skip
        if trial is not None and trial.differs:
            listed = ", ".join(map(str, trial.values))
            note = f": {trial.note}" if trial.note else ""
            yield _row(trial.kind, f"{trial.distinct} different results {what} {listed}{note}")
            yield from _drift(trial)
    others = case.trial("others")
    if others is not None and others.differs:
        yield _row("others", others.note or "other bits with other values in the other rows")


def _drift(trial: Trial) -> Iterator[str]:
    if trial.distance is not None:
        yield _row("drift", distance(trial.distance))


def distance(found: Distance) -> str:
    """Write how far apart results are."""
    if not found.elements:
        return f"the results have {found.format}"
    text = f"{percent(found.differing / found.elements)} of elements differ"
    if found.max_ulp is not None and found.max_ulp_at_scale is not None:
        text += (
            f", up to {number(found.max_ulp_at_scale)} ulp of {found.format} at the largest, "
            f"{number(found.max_ulp)} ulp of the result"
        )
    return text


def _thresholds(found: Thresholds) -> str:
    sizes = f"{found.tried} batch sizes up to {found.largest:,}"
    row = f"row {found.row}" + (", moved to place 0," if found.row else "")
    text = f"{found.distinct} different results of {row} in {sizes}"
    if found.changes:
        text += f"; the bits change at {_listed(found.changes)}"
    else:
        first, second = found.segments[:2]
        text += f"; the bits change between {first.last:,} and {second.first:,}"
    return text + (" (the time ended the search)" if found.cut else "")


def _nearer(found: Nearer) -> str:
    if found.side is None:
        return f"not known: {found.why}"
    text = f"{found.side}"
    if found.before_error_ulp is not None and found.after_error_ulp is not None:
        text += f" ({found.before_error_ulp:.3g} -> {found.after_error_ulp:.3g}"
        text += f" ulp of {found.format}, {plural(found.rows, 'value')})"
    return text


def _cause(cause: Cause) -> str:
    text = cause.text if cause.kind == "unknown" else f"{cause.kind}: {cause.text}"
    if cause.before is not None and cause.after is not None:
        text += f": {cause.before} -> {cause.after}"
    return text


def _remedy(remedy: Remedy) -> str:
    cost = f", {remedy.ratio:.3g} times the time" if remedy.ratio is not None else ""
    return f"{remedy.name}: {remedy.text} (verified{cost})"


def _calls(case: CaseRecord) -> str:
    places = [f"{call.path or call.place or call.index}" for call in case.calls[1:]]
    places = list(dict.fromkeys(places))
    more = f" and {len(places) - _MOST_CALLS} more" if len(places) > _MOST_CALLS else ""
    return f"{len(case.calls)}, also in {', '.join(places[:_MOST_CALLS])}{more}"


def _whole(audit: Audit) -> Iterator[str]:
    for one in audit.whole:
        said = [_of_whole(trial) for trial in one.trials]
        yield f"{audit.target}, {one.form}: {'; '.join(said)}"
        yield from (f"    {line}" for line in _about(one))


def _of_whole(trial: Trial) -> str:
    what = "equal runs" if trial.kind == "repeats" else f"batches of {_listed(trial.values)}"
    count = f"{len(trial.values)} " if trial.kind == "repeats" else ""
    results = plural(trial.distinct, "result")
    row = "" if trial.kind == "repeats" else " of row 0"
    drift = f" ({distance(trial.distance)})" if trial.distance is not None else ""
    return f"{results}{row} in {count}{what}{drift}"


def _about(one: Whole) -> Iterator[str]:
    for note in one.notes:
        yield _row("note", note)
    for gap in one.gaps:
        yield _row("gap", gap)


def _gaps(audit: Audit) -> Iterator[str]:
    """Yield what was not decided, for operators that are no culprits."""
    yield from (f"gap: {gap}" for gap in audit.gaps)
    found: dict[str, list[str]] = {}
    for case in audit.cases:
        if not any(code in _SHORT for code in case.codes):
            for gap in case.gaps:
                found.setdefault(gap, []).append(label_of(case))
    for gap, names in list(found.items())[:_MOST_GAPS]:
        known = list(dict.fromkeys(names))
        more = f" and {len(known) - _MOST_CALLS} more" if len(known) > _MOST_CALLS else ""
        yield f"gap: {', '.join(known[:_MOST_CALLS])}{more}: {gap}"
    if len(found) > _MOST_GAPS:
        yield f"gap: {len(found) - _MOST_GAPS} more reasons; see the JSON"


def _finding(finding: Finding, color: bool) -> str:
    severity = _paint(finding.severity, finding.severity, color)
    return f"{finding.location}  {severity} {finding.code}: {finding.message}"


def _listed(sizes: Sequence[int]) -> str:
    shown = [f"{size:,}" for size in sizes]
    if len(shown) <= _MOST_SIZES:
        return ", ".join(shown)
    return f"{', '.join(shown[: _MOST_SIZES - 1])} ... {shown[-1]}"


def _row(name: str, text: str) -> str:
    return f"{name:<8}  {text}"


def _paint(text: str, key: str, color: bool) -> str:
    code = _COLORS.get(key)
    return f"\x1b[{code}m{text}\x1b[0m" if color and code else text
