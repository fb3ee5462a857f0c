"""Findings that are accepted on the command line: `--allow 'CODE at NAME: reason'`."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace

from lastbit.errors import InputError, Problem, did_you_mean
from lastbit.plan_model import Allow
from lastbit.records import Location
from lastbit.result import Finding, Result

# A name may hold colons (`aten::sort`); a colon and a space end it.
_ALLOW = re.compile(
    r"\s*(?P<code>\w+)(?:\s+at\s+`?(?P<at>\S+?)`?)?\s*:\s+(?P<reason>\S.*)", re.DOTALL
)
FORM = "'FUS190 at NAME: reason', or 'FUS190: reason' for all values"


def read_allow(text: str) -> Allow:
    """Return what a text accepts: `CODE at NAME: reason`.

    Raises:
        InputError: it has another form, or there is no such code.
    """
    from lastbit.codes import GENERAL, heads
    from lastbit.registry import load_rules

    match = _ALLOW.fullmatch(text)
    if match is None:
        raise InputError([Problem(f"{text!r} accepts nothing", f"Write {FORM}.")])
    code = match["code"]
    codes = [*(rule.code for rule in load_rules().values()), *GENERAL]
    if code not in heads(codes):
        raise InputError([Problem(f"unknown code {code!r}", did_you_mean(code, codes))])
    return Allow(code, match["at"], match["reason"].strip())


def with_allows(result: Result, allows: Sequence[Allow], where: str | None = None) -> Result:
    """Return a result in which findings that are accepted do not fail.

    Args:
        result: the result.
        allows: what is accepted; `at` is a value, or for an operator that is known by its name
            only, that name.
        where: the place of warnings about `allows` that accept nothing; None: there are none.
    """
    if not allows:
        return result
    used: set[int] = set()
    findings = []
    reasons: dict[str, str] = {}
    failing: set[str] = set()
    for finding in result.findings:
        allow = next((one for one in allows if _covers(one, finding, result)), None)
        if finding.severity == "error" and allow is not None:
            used.add(id(allow))
            message = f"{finding.message}; allowed: {allow.reason}"
            findings.append(replace(finding, severity="note", message=message))
            if finding.step:
                reasons.setdefault(finding.step, allow.reason)
            continue
        findings.append(finding)
        if finding.severity == "error" and finding.step:
            failing.add(finding.step)
    if where is not None:
        findings += [_idle(allow, where) for allow in allows if id(allow) not in used]
    allowed = {name: reason for name, reason in reasons.items() if name not in failing}
    steps = [
        replace(step, allowed=True, allow_reason=allowed[step.id]) if step.id in allowed else step
        for step in result.steps
    ]
    regions = [
        replace(one, allowed=True, allow_reason=allowed[one.id]) if one.id in allowed else one
        for one in result.regions
    ]
    return Result.of(result.command, steps, findings, result.environment, regions)


def _covers(allow: Allow, finding: Finding, result: Result) -> bool:
    from lastbit.importers.verdicts import operator_of

    verdict = result.verdict(finding.step) if finding.step else None
    names = () if verdict is None else verdict.at
    operator = operator_of(finding)
    return allow.covers(finding.code, (*names, *([operator] if operator else [])))


def _idle(allow: Allow, where: str) -> Finding:
    at = f" at `{allow.at}`" if allow.at else ""
    message = f"--allow {allow.code}{at} accepts nothing: no finding that fails is of this kind"
    return Finding(allow.code, "warning", message, Location(where))
