"""HTML: one file that loads nothing, needs no script, and reads on paper, a phone and in the dark.

What is drawn is in the result, or follows from a witness by running it. Equal results give equal
bytes.
"""

from __future__ import annotations

from functools import lru_cache
from importlib.resources import files

from lastbit.report.page.cards import Anchors, card
from lastbit.report.page.charts import cost_chart, drift_chart
from lastbit.report.page.escape import escaped
from lastbit.report.page.overview import failures, glance, header, headline, table
from lastbit.report.page.splits import split_charts
from lastbit.result import Finding, Result

POLICY = "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; img-src data:"


KEY = """<details class=key><summary>How to read a step</summary><ul>
<li>The kind of change: <b>bitwise</b> the same bits; <b>reassociation</b> a sum is added in another
order; <b>rounding</b> a rounding appears, disappears or moves; <b>grid</b> a quantization changes;
<b>math</b> another function of real numbers; <b>unknown</b> not decided. It is judged on ordinary
runs; <b>domain</b> says that infinities, NaN, flushed or saturated values differ on others.
<li>Drift is in ulp of the format named, twice: of the result, which cancellation makes absurd, and
at scale, which is at the sum of absolute terms or at the largest intermediate.
<li>A witness is the smallest input found that shows the change. Bits that differ are marked.
<li>Program: a line for each value, an arc for each use. A dot rounds, a ring stays exact; a dot or
ring <span class=k0>in this colour</span> is a rounding that is not the same on both sides. Lines
that are not the same are marked.
<li>Order of the additions: terms from the top, the result at the right. At a <span class=k0>filled
dot</span> the rounding loses something on these inputs, at a ring the sum is exact.
</ul></details>"""


def render(result: Result) -> str:
    """Return the page."""
    findings: dict[str | None, list[Finding]] = {}
    known = {verdict.id for verdict in result.verdicts}
    for finding in result.findings:
        findings.setdefault(finding.step if finding.step in known else None, []).append(finding)
    anchors = Anchors(result)
    title = f"{headline(result, findings)} \u00b7 lastbit {escaped(result.command)}"
    parts = [
        failures(result, anchors),
        _steps(result, findings, anchors),
        _regions(result, findings, anchors),
        _all_findings(result, anchors),
    ]
    return (
        "<!doctype html>\n<html lang=en><head><meta charset=utf-8>"
        f'<meta http-equiv=Content-Security-Policy content="{POLICY}">'
        '<meta name=viewport content="width=device-width,initial-scale=1">'
        '<link rel=icon href="data:,">'
        f"<title>{title}</title>\n<style>\n{_file('page.css')}</style></head>\n<body>"
        "<a class=skip href=#main>To the verdicts</a>\n"
        f"{header(result, findings)}\n<main id=main>\n"
        f"{''.join(part + chr(10) for part in parts if part)}</main>\n"
        f"{_footer(result)}\n<script>\n{_file('page.js')}</script></body></html>\n"
    )


@lru_cache(maxsize=4)
def _file(name: str) -> str:
    return (files("lastbit.report.page") / name).read_text(encoding="utf-8")


def _steps(result: Result, findings: dict[str | None, list[Finding]], anchors: Anchors) -> str:
    if not result.steps:
        return ""
    placed = [(anchors.of[step.id], step) for step in result.steps]
    charts = drift_chart(placed) + cost_chart(placed) + split_charts(placed)
    costs = {step.id: step.cost for step in result.steps}
    cards = "\n".join(
        card(step, findings.get(step.id, []), anchors, costs) for step in result.steps
    )
    return (
        "<section aria-labelledby=h2><h2 id=h2>All steps</h2>"
        f"{glance(result, findings, anchors)}</section>\n"
        f"{_charts(charts)}<section aria-labelledby=h3><h2 id=h3>Step by step</h2>"
        f"{KEY}{_filter(result)}\n{cards}</section>"
    )


def _charts(charts: str) -> str:
    if not charts:
        return ""
    return (
        "<section aria-labelledby=h6><h2 id=h6>Drift and cost</h2>"
        f"<div class=charts>{charts}</div></section>\n"
    )


def _filter(result: Result) -> str:
    """Return buttons that a script brings to life; without one they stay hidden."""
    keys = ["all", *(["fails"] if result.exit_code else []), *result.summary.changes]
    buttons = "".join(
        f"<button data-s={key} aria-pressed={'true' if key == 'all' else 'false'}>{key}</button>"
        for key in keys
    )
    return (
        f'<div id=filter role=group aria-label="Show steps" hidden>{buttons}<span class=gap></span>'
        "<button data-o=1>open all</button><button data-o=0>close all</button></div>"
    )


def _regions(result: Result, findings: dict[str | None, list[Finding]], anchors: Anchors) -> str:
    if not result.regions:
        return ""
    cards = "\n".join(
        card(region, findings.get(region.id, []), anchors, {}) for region in result.regions
    )
    return (
        "<section aria-labelledby=h4><h2 id=h4>Transforms that meet</h2>"
        "<p class=dim>Several steps that touch each other, judged as one change.</p>\n"
        f"{cards}</section>"
    )


def _all_findings(result: Result, anchors: Anchors) -> str:
    rest = [finding for finding in result.findings if finding.severity != "error"]
    if not rest:
        return ""
    return (
        "<section aria-labelledby=h5><h2 id=h5>Warnings and notes</h2>"
        f"{table(rest, anchors)}</section>"
    )


def _footer(result: Result) -> str:
    facts = "".join(
        f"<div><dt>{escaped(name)}<dd>{escaped(value)}</div>"
        for name, value in result.environment.items()
    )
    return f"<footer><h2>Environment</h2><dl>{facts}</dl></footer>"
