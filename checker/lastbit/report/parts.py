"""What several formats need of a result: a verdict in words, and which findings are accepted."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import replace

from lastbit.report import text
from lastbit.report.escaping import visible
from lastbit.result import Finding, Region, Result, Step

_PADDING = re.compile(" {2,}")
_ALLOWED = "; allowed: "  # between what is found and why it is accepted


def block(result: Result, verdict: Step | Region, findings: Sequence[Finding]) -> str:
    """Return what the text report says of a step or a region and its findings."""
    alone = replace(
        result,
        steps=(verdict,) if isinstance(verdict, Step) else (),
        regions=(verdict,) if isinstance(verdict, Region) else (),
        findings=tuple(findings),
    )
    whole = visible(text.render(alone)).removesuffix(f"\n\n{text.last_line(alone)}\n")
    head, line, rest = whole.partition("\n")
    return _PADDING.sub("  ", head) + line + rest


def verdicts(result: Result) -> dict[str | None, Step | Region]:
    """Return the steps and the regions by id, of which findings name one."""
    return {verdict.id: verdict for verdict in reversed(result.verdicts)}


def by_verdict(result: Result) -> dict[str | None, list[Finding]]:
    """Return the findings about each step or region; under None those of no step that is there."""
    known = verdicts(result)
    found: dict[str | None, list[Finding]] = {}
    for finding in result.findings:
        found.setdefault(finding.step if finding.step in known else None, []).append(finding)
    return found


def reason_of(finding: Finding, verdict: Step | Region | None) -> str | None:
    """Return why a finding is accepted, by an `[[allow]]` or `--allow`; None: it is not."""
    if finding.severity != "note" or _ALLOWED not in finding.message:
        return None
    given = verdict.allow_reason if verdict is not None and verdict.allowed else None
    if given is not None and finding.message.endswith(_ALLOWED + given):
        return given
    return finding.message.rpartition(_ALLOWED)[2]


def outcome(step: Step, findings: Sequence[Finding]) -> str:
    """Return in one word how a step fares.

    `error` or `warning` where it has such a finding, else `allowed`, `undecided`, `passes`, or
    `ignored`: it is more than is allowed, and the finding that said so was not selected.
    """
    from lastbit.demands import exceeds  # reads plans, which `--help` does not

    grave = worst(findings)
    if grave in ("error", "warning"):
        return grave
    if step.allowed:
        return "allowed"
    if step.change == "unknown":
        return "undecided"
    always = step.change == "math" or any(entry.new_non_finite for entry in step.domain)
    if exceeds(step) or (always and step.budget is None):
        return "ignored"
    accepted = any(reason_of(finding, step) is not None for finding in findings)
    return "allowed" if accepted else "passes"


def worst(findings: Iterable[Finding]) -> str:
    """Return the gravest severity of some findings, or an empty text."""
    given = {finding.severity for finding in findings}
    return next((one for one in ("error", "warning", "note") if one in given), "")


def files(result: Result) -> list[str]:
    """Return the files that a result speaks of, in the order of its steps and findings."""
    parts = (*result.verdicts, *result.findings)
    return list(dict.fromkeys(part.location.file for part in parts))
