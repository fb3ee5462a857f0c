"""The top of the page: what was decided, what fails, and all steps in one table."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from lastbit.report.page.cards import (
    OUTCOMES,
    Anchors,
    outcome,
    place,
    verdict_chips,
)
from lastbit.report.page.escape import arrows, escaped, prose
from lastbit.report.page.facts import promise_short, promise_word
from lastbit.report.page.layout import step_link
from lastbit.report.words import number, pair, percent, plural, size_pair
from lastbit.result import PROMISES, Finding, Result, Step

NO_BUDGET = "without a budget only math, unknown and new non-finite results fail"

ByVerdict = Mapping[str | None, Sequence[Finding]]


def headline(result: Result, findings: ByVerdict) -> str:
    """Say in a sentence how much was decided and how much fails."""
    decided, total = result.decided
    text = f"Decided {decided} of {plural(total, 'step')}"
    failing = sum(_fails(findings, step.id) for step in result.steps)
    regions = sum(_fails(findings, region.id) for region in result.regions)
    parts = []
    if failing:
        parts.append(f"{failing} {'fails' if failing == 1 else 'fail'}")
    if regions:
        parts.append(f"{plural(regions, 'region')} {'fails' if regions == 1 else 'fail'}")
    loose = sum(finding.severity == "error" for finding in findings.get(None, ()))
    if loose:
        parts.append(f"{plural(loose, 'error')} outside of steps")
    return f"{text}; {', '.join(parts) or 'none fails' if total else 'nothing was judged'}"


def _fails(findings: ByVerdict, identity: str) -> bool:
    return any(finding.severity == "error" for finding in findings.get(identity, ()))


def header(result: Result, findings: ByVerdict) -> str:
    """Return the headline, the kinds of change and the count of findings."""
    summary = result.summary
    files = dict.fromkeys(step.location.file for step in result.steps)
    about = ", ".join(f"<code>{escaped(name)}</code>" for name in files)
    kinds = summary.changes.items()
    bars = "".join(f'<i class=k-{kind} style="flex:{n}"></i>' for kind, n in kinds)
    legend = "".join(f"<li class=k-{kind}><i></i>{n} {kind}" for kind, n in kinds)
    counts = plural(summary.findings, "finding")
    if summary.findings:
        counts += f", {plural(summary.errors, 'error')}"
    budget = "" if any(v.budget for v in result.verdicts) else f"; {NO_BUDGET}"
    return (
        f"<header><p class=eyebrow>lastbit {escaped(result.command)} {about}</p>"
        f"<h1>{headline(result, findings)}</h1>"
        f"<div class=kinds aria-hidden=true>{bars}</div><ul class=legend>{legend}</ul>"
        f"<p class=dim>{counts}{budget}</p></header>"
    )


def failures(result: Result, anchors: Anchors) -> str:
    """Return what fails, a row for each step; empty where nothing does."""
    rows: dict[object, list[Finding]] = {}
    for finding in result.findings:
        if finding.severity == "error":
            key = finding.step if finding.step in anchors.of else (finding.code, finding.location)
            rows.setdefault(key, []).append(finding)
    if not rows:
        return ""
    body = "".join(_failure(errors, result, anchors) for errors in rows.values())
    head = "<tr><th scope=col>at<th scope=col class=wide>change<th scope=col>why"
    head += "<th scope=col class=wide>place"
    return (
        "<section aria-labelledby=h1><h2 id=h1>What fails</h2>"
        f"<table class=all><caption class=vh>What fails</caption>{head}{body}</table></section>"
    )


def _failure(errors: Sequence[Finding], result: Result, anchors: Anchors) -> str:
    """Return all errors of one step or region; its name, which each begins with, is said once."""
    first = errors[0]
    verdict = result.verdict(first.step) if first.step is not None else None
    head = chips = ""
    if verdict is not None:
        head = f"<a href=#{anchors.of[verdict.id]}>{prose(verdict.label)}</a>"
        chips = verdict_chips(verdict)
    label = f"{verdict.label} " if verdict is not None else ""
    codes = dict.fromkeys(finding.code for finding in errors)
    named = " ".join(f"<code>{escaped(code)}</code>" for code in codes)
    why = "<br>".join(prose(finding.message.removeprefix(label)) for finding in errors)
    return (
        f"<tr><th scope=row>{head} {named}<td class=wide>{chips}<td>{why}"
        f"<td class=wide>{place(first.location)}"
    )


def table(findings: Sequence[Finding], anchors: Anchors) -> str:
    """Return findings as a table."""
    body = "".join(
        f"<tr><td class=f-{f.severity}><b>{f.severity}</b><td><code>{escaped(f.code)}</code>"
        f"<td>{prose(f.message)}<td class=wide>{anchors.link(f.step) if f.step else ''}"
        f"<td class=wide>{place(f.location)}"
        for f in findings
    )
    head = "<th scope=col>severity<th scope=col>code<th scope=col>finding"
    head += "<th scope=col class=wide>about<th scope=col class=wide>place"
    return f"<table class=all><caption class=vh>Findings</caption><tr>{head}{body}</table>"


def glance(result: Result, findings: ByVerdict, anchors: Anchors) -> str:
    """Return all steps in one table."""
    columns = [
        ("step", ""),
        ("change", ""),
        ("promises", "wide"),
        ("elements that differ", "wide n"),
    ]
    columns += [("ulp at scale", "wide n"), ("bytes moved", "wide n"), ("launches", "wide n")]
    columns.append(("budget", ""))
    head = "".join(f'<th scope=col class="{kind}">{name}' for name, kind in columns)
    body = "".join(_line(step, findings.get(step.id, ()), anchors) for step in result.steps)
    return f"<table class=glance><caption class=vh>All steps</caption><tr>{head}{body}</table>"


def _line(step: Step, findings: Sequence[Finding], anchors: Anchors) -> str:
    result = outcome(step, findings)
    drift, cost = step.drift, step.cost
    share = scale = moved = launches = ""
    if drift is not None:
        bar = f'<i style="width:{100 * drift.share:.3g}%"></i>'
        share = f"{percent(drift.share)}<span class=share aria-hidden=true>{bar}</span>"
        if drift.max_ulp_at_scale is not None:
            scale = f"{number(drift.max_ulp_at_scale)} {escaped(drift.format)}"
    if cost is not None:
        moved = arrows(size_pair(cost.bytes))
        launches = arrows(pair(*map(str, cost.launches)))
    link = step_link(anchors.of[step.id], step)
    return (
        f"<tr><th scope=row>{link}<td>{verdict_chips(step)}<td class=wide>{_promises(step)}"
        f'<td class="wide n">{share}<td class="wide n">{scale}<td class="wide n">{moved}'
        f'<td class="wide n">{launches}<td class=o-{result}>{OUTCOMES[result]}'
    )


def _promises(step: Step) -> str:
    given = [
        (name, promise_short(step.promises[name])) for name in PROMISES if name in step.promises
    ]
    if not given:
        return ""
    said = [
        f"<span{' class=bad' * (word == 'lost')}>{promise_word(name)} {word}</span>"
        for name, word in given
        if word
    ]
    return ", ".join(said) or "<span class=dim>kept</span>"
