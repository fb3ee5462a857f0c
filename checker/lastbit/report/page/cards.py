"""A step or a region as a card that opens: what was judged, the verdict, and all that is known."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from lastbit.report.page.escape import escaped, prose
from lastbit.report.page.facts import budget_text, cost_table, domain_text, promises_table, rows
from lastbit.report.page.witness import witness_block
from lastbit.result import Cost, Finding, Location, Region, Result, Step

OUTCOMES = {
    "error": "fails",
    "exceeded": "exceeded, as by its steps",
    "warning": "warning",
    "note": "kept",
    "allowed": "allowed",
    "kept": "kept",
    "none": "no budget",
}


class Anchors:
    """Short anchors of steps and regions, whose ids may hold any character."""

    def __init__(self, result: Result) -> None:
        steps = {step.id: f"s{i}" for i, step in enumerate(result.steps, 1)}
        regions = {region.id: f"r{i}" for i, region in enumerate(result.regions, 1)}
        self.of = regions | steps

    def link(self, identity: str) -> str:
        """Return a link to a step or region; its id alone where there is none."""
        anchor = self.of.get(identity)
        name = f"<code>{escaped(identity)}</code>"
        return f"<a href=#{anchor}>{name}</a>" if anchor else name


def outcome(verdict: Step | Region, findings: Sequence[Finding]) -> str:
    """Return what becomes of a verdict: a key of `OUTCOMES`."""
    worst = next((s for s in ("error", "warning") if any(f.severity == s for f in findings)), "")
    if worst:
        return worst
    if verdict.allowed:
        return "allowed"
    if verdict.budget is None:
        return "none"
    from lastbit.demands import exceeds  # reads plans, which `--help` does not

    return "exceeded" if exceeds(verdict) else "kept"


def chip(kind: str) -> str:
    """Return the kind of change as a chip."""
    return f'<span class="chip k-{kind}">{kind}</span>'


def verdict_chips(verdict: Step | Region) -> str:
    """Return the kind of change, and whether the domain changes too."""
    return chip(verdict.change) + (
        ' <span class="chip k-domain">domain</span>' * bool(verdict.domain)
    )


def place(location: Location) -> str:
    """Return a place as text."""
    return f"<span class=place>{escaped(location)}</span>"


def card(
    verdict: Step | Region,
    findings: Sequence[Finding],
    anchors: Anchors,
    costs: Mapping[str, Cost | None],
) -> str:
    """Return the card of a step or a region.

    Args:
        verdict: the step or region.
        findings: those about it.
        anchors: of all steps and regions.
        costs: of all steps, by id.
    """
    result = outcome(verdict, findings)
    code = verdict.code if isinstance(verdict, Step) else None
    tags = [f"<code>{escaped(code)}</code>"] if code else []
    tags.append(f"<h3>{prose(verdict.label)}</h3>")
    if isinstance(verdict, Step) and verdict.branch:
        tags.append("<span class=tag>branch</span>")
    head = (
        f"{verdict_chips(verdict)} {' '.join(tags)} {place(verdict.location)}"
        f'<span class="out o-{result}">{OUTCOMES[result]}</span>'
    )
    is_open = " open" if result == "error" else ""
    fails = " data-f" if result == "error" else ""
    return (
        f"<article id={anchors.of[verdict.id]} data-k={verdict.change}{fails}>"
        f"<details{is_open}><summary>{head}</summary><div class=body>"
        f"{_body(verdict, findings, anchors, costs)}</div></details></article>"
    )


def _body(
    verdict: Step | Region,
    findings: Sequence[Finding],
    anchors: Anchors,
    costs: Mapping[str, Cost | None],
) -> str:
    out = [f"<p class=title>{_title(verdict, anchors)}</p>"]
    out += [_finding(finding, verdict) for finding in findings]
    listed: list[tuple[str, str]] = []
    if verdict.same_as:
        listed.append(("same as", anchors.link(verdict.same_as)))
    if isinstance(verdict, Region) and verdict.set_by:
        listed.append(("set by", anchors.link(verdict.set_by)))
    if not verdict.same_as:
        listed += rows(verdict)
    if verdict.budget is not None:
        listed.append(("budget", prose(budget_text(verdict.budget))))
    if verdict.allowed:
        listed.append(("allowed", prose(verdict.allow_reason or "by the plan")))
    if isinstance(verdict, Step) and verdict.claim and verdict.claim != verdict.change:
        listed.append(("the rule claims", verdict.claim))
    listed.append(("id", f"<code>{escaped(verdict.id)}</code>"))
    out.append(f"<dl>{''.join(f'<dt>{name}<dd>{text}' for name, text in listed)}</dl>")
    out.append(_tables(verdict, costs))
    if not verdict.same_as:
        out.append(_witnesses(verdict))
    return "".join(out)


def _title(verdict: Step | Region, anchors: Anchors) -> str:
    if isinstance(verdict, Region):
        return f"{', '.join(map(anchors.link, verdict.steps))} as one change"
    return prose(verdict.title)


def _finding(finding: Finding, verdict: Step | Region) -> str:
    at = f" {place(finding.location)}" if finding.location.file != verdict.location.file else ""
    code = f"<code>{escaped(finding.code)}</code>"
    head = f"<b>{finding.severity}</b> {code}{at}"
    return f"<p class=f-{finding.severity}>{head} {prose(finding.message)}</p>"


def _tables(verdict: Step | Region, costs: Mapping[str, Cost | None]) -> str:
    tables = "" if verdict.same_as else promises_table(verdict)
    cost = verdict.cost if isinstance(verdict, Step) else None
    if cost is not None and (not verdict.same_as or cost != costs.get(verdict.same_as)):
        tables += cost_table(cost)
    return f"<div class=tables>{tables}</div>" if tables else ""


def _witnesses(verdict: Step | Region) -> str:
    out = []
    if verdict.witness is not None:
        title = f"Witness: an input that shows <em>{verdict.witness.kind}</em>"
        out.append(witness_block(verdict.witness, title, True))
    drawn = verdict.witness is not None
    for entry in verdict.domain:
        if entry.witness is not None:
            title = f"Witness: {prose(domain_text(entry))}"
            out.append(witness_block(entry.witness, title, not drawn))
            drawn = True
    return "".join(out)
