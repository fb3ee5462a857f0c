"""Annotations of GitHub: one workflow command for each finding, and the totals on the last line.

    ::error file=plan.toml,line=58,title=FUS102 drop-rounding::drop-rounding at `t` ...

Characters that end a command or a property are escaped as GitHub's toolkit does. The runner reads
a command wherever it begins a line, so all text stands behind one.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from lastbit.report.escaping import cut, one_line, visible
from lastbit.report.parts import verdicts
from lastbit.report.text import last_line
from lastbit.result import Finding, Region, Result, Step

LEVELS = {"error": "error", "warning": "warning", "note": "notice"}
MOST_SHOWN = 10  # annotations of one level that GitHub shows of one step of a job
MOST_TITLE = 200  # characters; GitHub takes 255
MOST_MESSAGE = 15_000  # characters; GitHub takes 64 KB, in which one has at most four bytes
_DATA = {"%": "%25", "\r": "%0D", "\n": "%0A"}
_PROPERTY = _DATA | {":": "%3A", ",": "%2C"}


def render(result: Result) -> str:
    """Return the annotations and the totals; equal results give equal bytes."""
    return "\n".join([*_lines(result)]) + "\n"


def _lines(result: Result) -> Iterator[str]:
    known = verdicts(result)
    for finding in result.findings:
        yield _annotation(finding, known.get(finding.step))
    yield last_line(result)
    counts = Counter(LEVELS[finding.severity] for finding in result.findings)
    for level, count in counts.items():
        if count > MOST_SHOWN:
            yield f"GitHub shows {MOST_SHOWN} of these {count} {level}s; this log lists all."


def _annotation(finding: Finding, verdict: Step | Region | None) -> str:
    rule = f" {verdict.rule}" if isinstance(verdict, Step) and verdict.rule else ""
    place = finding.location
    properties = {
        "file": visible(place.file),
        "line": "" if place.line is None else str(place.line),
        "col": "" if place.line is None or place.column is None else str(place.column),
        "title": cut(one_line(f"{finding.code}{rule}"), MOST_TITLE),
    }
    given = ",".join(f"{k}={_escaped(v, _PROPERTY)}" for k, v in properties.items() if v)
    message = visible(finding.message)
    if verdict is not None:
        message += f"\n{visible(verdict.title)}"
    return f"::{LEVELS[finding.severity]} {given}::{_escaped(cut(message, MOST_MESSAGE), _DATA)}"


def _escaped(text: str, codes: dict[str, str]) -> str:
    return "".join(codes.get(character, character) for character in text)
