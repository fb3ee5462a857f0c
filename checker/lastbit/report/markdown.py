"""Markdown for a pull request: what fails, a table of steps, and folded details.

A comment on GitHub holds 65,536 characters. What does not fit is left out, the details first, and
the report says how much that is.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence

from lastbit.report.escaping import cut
from lastbit.report.parts import block, by_verdict, outcome, reason_of, verdicts, worst
from lastbit.report.prose import code, html, markdown
from lastbit.report.sarif_rules import fenced
from lastbit.report.text import last_line
from lastbit.report.words import number, percent, plural, size_pair
from lastbit.result import CHANGES, PROMISES, Finding, Region, Result, Step

MOST = 65_000  # characters
MOST_ROWS, ROOM_OF_ROWS = 50, 30_000
MOST_LISTED, ROOM_OF_LIST = 20, 12_000
MOST_TEXT = 400  # characters of one message or label
HEADER = (
    "| step | place | change | drift | bytes moved | promises | verdict |",
    "| --- | --- | --- | --- | --- | --- | --- |",
)
ALL = "`--output json=FILE` writes all"


def render(result: Result) -> str:
    """Return the report; equal results give equal bytes."""
    found = by_verdict(result)
    lines = [*_head(result), *_failing(result), *_table(result, found), *_loose(found)]
    room = MOST - sum(len(line) + 1 for line in lines)
    lines += _details(result, found, room)
    return "\n".join(lines).rstrip() + "\n"


def _head(result: Result) -> Iterator[str]:
    errors = result.summary.errors
    title = plural(errors, "error") if errors else "nothing fails"
    known = verdicts(result)
    reasons = [reason_of(finding, known.get(finding.step)) for finding in result.findings]
    if allowed := len(reasons) - reasons.count(None):
        title += f", {plural(allowed, 'finding')} allowed"
    yield f"### lastbit {markdown(result.command)}: {title}"
    yield ""
    yield markdown(last_line(result)) + "."
    yield ""


def _failing(result: Result) -> Iterator[str]:
    """Yield the findings that fail, each a bullet."""
    errors = [finding for finding in result.findings if finding.severity == "error"]
    yield from _list([_bullet(finding) for finding in errors], "fail")


def _list(bullets: Sequence[str], do: str) -> Iterator[str]:
    shown = _fitting(bullets, MOST_LISTED, ROOM_OF_LIST)
    yield from bullets[:shown]
    if shown < len(bullets):
        yield f"- and {len(bullets) - shown:,} more that {do}; {ALL}"
    if bullets:
        yield ""


def _fitting(lines: Sequence[str], most: int, room: int) -> int:
    """Return how many of the first lines fit into a number of characters, of at most so many."""
    for shown, line in enumerate(lines[:most]):
        room -= len(line) + 1
        if room < 0:
            return shown
    return min(len(lines), most)


def _bullet(finding: Finding) -> str:
    place = code(cut(str(finding.location), MOST_TEXT))
    return f"- **{markdown(finding.code)}** {place}: {markdown(cut(finding.message, MOST_TEXT))}"


def _table(result: Result, found: Mapping[str | None, Sequence[Finding]]) -> Iterator[str]:
    """Yield the table of steps; where there are many, those that fail or differ come first."""
    steps = result.steps
    if not steps:
        return
    if len(steps) > MOST_ROWS:
        steps = tuple(sorted(steps, key=lambda step: _rank(step, found.get(step.id, ()))))
    rows = [_row(step, found.get(step.id, ())) for step in steps[:MOST_ROWS]]
    shown = _fitting(rows, MOST_ROWS, ROOM_OF_ROWS)
    yield from (*HEADER, *rows[:shown], "")
    if rest := steps[shown:]:
        counts = Counter(step.change for step in rest)
        kinds = ", ".join(f"{counts[kind]:,} {kind}" for kind in CHANGES if counts[kind])
        yield f"{plural(len(rest), 'more step')} ({kinds}); {ALL}."
        yield ""


def _rank(step: Step, findings: Sequence[Finding]) -> tuple[int, bool]:
    order = {"error": 0, "warning": 1, "note": 2, "": 3}
    return order[worst(findings)], not _differs(step)


def _row(step: Step, findings: Sequence[Finding]) -> str:
    return f"| {' | '.join(_cells(step, findings))} |"


def _cells(step: Step, findings: Sequence[Finding]) -> Iterator[str]:
    label = step.label if step.code is None else f"{step.code} {step.label}"
    yield markdown(cut(label, MOST_TEXT))
    yield code(cut(str(step.location), MOST_TEXT))
    yield step.change + (" + domain" if step.domain else "")
    yield _drift(step)
    yield "" if step.cost is None else size_pair(step.cost.bytes)
    yield ", ".join(_promises(step))
    yield _verdict(step, findings)


def _drift(step: Step) -> str:
    drift = step.drift
    if drift is None:
        return f"as {code(cut(step.same_as, MOST_TEXT))}" if step.same_as else ""
    if drift.share == 0:
        return "none"
    text = percent(drift.share)
    if drift.max_ulp_at_scale is not None:
        text += f", {number(drift.max_ulp_at_scale)} ulp of {markdown(drift.format)} at scale"
    return text.replace(">", "&gt;")


def _promises(step: Step) -> Iterator[str]:
    """Yield the promises that a step breaks or brings; those that stay need no room."""
    for name in PROMISES:
        promise = step.promises.get(name)
        if promise is None or promise.after is None or promise.before == promise.after:
            continue
        yield f"{'now' if promise.after else 'no longer'} {name.replace('_', '-')}"


def _verdict(step: Step, findings: Sequence[Finding]) -> str:
    word = outcome(step, findings)
    if word == "error":
        return f"**{word}**"
    if word != "allowed":
        return word
    reasons = (reason_of(finding, step) for finding in findings)
    reason = step.allow_reason or next((one for one in reasons if one is not None), "by the plan")
    return f"allowed: {markdown(cut(reason, MOST_TEXT))}"


def _loose(found: Mapping[str | None, Sequence[Finding]]) -> Iterator[str]:
    """Yield what is said of the graph as it stands, and does not fail."""
    findings = [finding for finding in found.get(None, ()) if finding.severity != "error"]
    yield from _list([f"{_bullet(one)} ({one.severity})" for one in findings], "do not fail")


def _details(
    result: Result, found: Mapping[str | None, Sequence[Finding]], room: int
) -> Iterable[str]:
    """Return the folded text of each step and region that fails or is not bitwise, as they fit."""
    shown = [one for one in result.verdicts if found.get(one.id) or _differs(one)]
    shown.sort(key=lambda one: worst(found.get(one.id, ())) != "error")
    lines: list[str] = []
    left_out = 0
    for verdict in shown:
        findings = found.get(verdict.id, [])
        folded = _folded(verdict, block(result, verdict, findings))
        room -= sum(len(line) + 1 for line in folded)
        if room < 0 or left_out:
            left_out += 1
            continue
        lines += folded
    if left_out:
        lines.append(f"{plural(left_out, 'detail')} left out, for which there is no room; {ALL}.")
    return lines


def _differs(verdict: Step | Region) -> bool:
    return verdict.change != "bitwise" or bool(verdict.domain)


def _folded(verdict: Step | Region, text: str) -> list[str]:
    summary = html(cut(f"{verdict.label}: {verdict.change}", MOST_TEXT))
    head = f"<details><summary>{summary}</summary>"
    return [head, "", *fenced(text).split("\n"), "", "</details>", ""]
