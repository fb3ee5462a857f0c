"""Text for a terminal: one block for each step and region, and the totals on the last line.

    plan.toml:58  FUS102 drop-rounding at `t`                                        rounding
        `t` = round(silu(g), bf16) no longer happens before `z`
        drift     27.4 % of elements differ, up to 1 ulp of bf16 at scale ...
        promises  deterministic, batch-invariant
        witness   g = 0x1.8p-1, u = 0x1.8p+0: 0x3f43 -> 0x3f44 (bf16 `z`)
        budget    allows `reassociation`: error

A line with nothing to say is left out. Equal results give equal bytes, so reports can be compared
with `diff`.
"""

from __future__ import annotations

from collections.abc import Iterator

from lastbit.report.words import count, number, operations, pair, percent, plural, size_pair
from lastbit.result import (
    PROMISES,
    Budget,
    Cost,
    DomainEntry,
    Drift,
    Evidence,
    Finding,
    Fit,
    Location,
    Promise,
    Region,
    Result,
    Step,
    Witness,
    WitnessInput,
)

ALWAYS = "no math, unknown or new non-finite result, as without any demand"
NO_BUDGET = "without a budget only math, unknown and new non-finite results fail"

EXCEEDED = "exceeded, as by its steps"  # what a step does not keep is no finding on its region

_VERDICT_COLUMN = 88
_MOST_VALUES_SHOWN = 8
_COLORS = {
    "bitwise": "32",
    "reassociation": "36",
    "rounding": "33",
    "grid": "33",
    "math": "31",
    "unknown": "35",
    "error": "31",
    "warning": "33",
}


def render(result: Result, *, color: bool = False, json_path: str | None = None) -> str:
    """Return the report; `json_path`, where the same result was written, gives replay commands."""
    by_step: dict[str | None, list[Finding]] = {}
    known = {verdict.id for verdict in result.verdicts}
    for finding in result.findings:
        by_step.setdefault(finding.step if finding.step in known else None, []).append(finding)
    steps = {step.id: step for step in result.steps}
    blocks = [
        _step(step, by_step.get(step.id, []), color, json_path, steps.get(step.same_as or ""))
        for step in result.steps
    ]
    for region in result.regions:
        blocks.append(_region(region, by_step.get(region.id, []), color, json_path))
    loose = by_step.get(None, [])
    if loose:
        blocks.append("\n".join(_loose_finding(finding, color) for finding in loose))
    blocks.append(last_line(result))
    return "\n\n".join(blocks) + "\n"


def last_line(result: Result) -> str:
    """Return the totals: what was decided, the kinds, the findings, and what fails.

    A note says how a verdict was found; it is counted apart, so that "no findings" can be asked.
    """
    summary = result.summary
    parts = [f"decided {result.decided[0]} of {plural(result.decided[1], 'step')}"]
    if summary.changes:
        parts.append(", ".join(f"{n} {kind}" for kind, n in summary.changes.items()))
    notes = sum(finding.severity == "note" for finding in result.findings)
    counted = [plural(summary.errors, "error")] if summary.findings > notes else []
    counted += [plural(notes, "note")] if notes else []
    findings = plural(summary.findings - notes, "finding")
    findings += f" ({', '.join(counted)})" if counted else ""
    parts.append(findings)
    if all(step.budget is None for step in result.steps):
        parts.append(NO_BUDGET)
    return "; ".join(parts)


def _paint(text: str, key: str, color: bool) -> str:
    code = _COLORS.get(key)
    return f"\x1b[{code}m{text}\x1b[0m" if color and code else text


def _step(
    step: Step, findings: list[Finding], color: bool, json_path: str | None, same: Step | None
) -> str:
    code = f"{step.code} " if step.code else ""
    head = f"{step.location}  {code}{step.label}{' (branch)' if step.branch else ''}"
    verdict = step.change + (" + domain" if step.domain else "")
    lines = [f"{head:<{_VERDICT_COLUMN}}  {_paint(verdict, step.change, color)}"]
    body = [f"same as {step.same_as}"] if step.same_as else list(_body(step, json_path))
    if step.same_as and step.cost and (same is None or step.cost != same.cost):
        body += _costs(step.cost)  # the same change, at another place
    if step.same_as and same is not None:
        body += [_row("note", note) for note in step.notes if note not in same.notes]
    lines += [f"    {line}" for line in body]
    lines += [f"    {line}" for line in _demands(step, findings, color)]
    return "\n".join(lines)


def _region(region: Region, findings: list[Finding], color: bool, json_path: str | None) -> str:
    head = f"{region.location}  {region.label}"
    verdict = region.change + (" + domain" if region.domain else "")
    set_by = f", set by {region.set_by}" if region.set_by else ""
    lines = [f"{head:<{_VERDICT_COLUMN}}  {_paint(verdict, region.change, color)}{set_by}"]
    body = _body(region, json_path)
    if region.same_as:
        body = iter([f"same as {region.same_as}", _row("steps", ", ".join(region.steps))])
    lines += [f"    {line}" for line in body]
    lines += [f"    {line}" for line in _demands(region, findings, color)]
    return "\n".join(lines)


def _body(step: Step | Region, json_path: str | None) -> Iterator[str]:
    yield step.title
    replay = f"    lastbit replay {json_path}#{step.id}" if json_path else ""
    shown = [step.witness, *(entry.witness for entry in step.domain)]
    replayed = next((w for w in shown if w is not None and w.program is not None), None)
    for entry in step.domain:
        is_shown = entry.witness is not None and entry.witness is replayed
        yield _row("domain", _domain(entry) + (replay if is_shown else ""))
    if step.drift:
        yield _row("drift", _drift(step.drift))
        if step.drift.bound:
            yield _row("bound", _bound(step.drift))
    promises = [_promise(name, step.promises[name]) for name in PROMISES if name in step.promises]
    if promises:
        yield _row("promises", ", ".join(promises))
    if isinstance(step, Step) and step.cost:
        yield from _costs(step.cost)
    if step.witness:
        yield _row("witness", _witness(step.witness) + replay)
    for evidence in step.evidence:
        if evidence.by == "sampled" or step.change == "unknown":
            yield _row("evidence", _evidence(evidence))
    for note in step.notes:
        yield _row("note", note)


def _row(name: str, text: str) -> str:
    return f"{name:<8}  {text}"


def _demands(step: Step | Region, findings: list[Finding], color: bool) -> Iterator[str]:
    from lastbit.demands import exceeds  # reads plans, which `--help` does not

    if step.budget:
        worst = next((s for s in ("error", "warning") if _has(findings, s)), "")
        if not worst:
            worst = "kept" if not exceeds(step) else "allowed" if step.allowed else EXCEEDED
        cost = any(f.code.startswith("COST") and f.severity != "note" for f in findings)
        demands = _budget(step.budget, cost) or (ALWAYS if worst == "error" else "no demand")
        yield _row("budget", f"{demands}: {_paint(worst, worst, color)}")
    if step.allowed:
        yield _row("allowed", step.allow_reason or "by the plan")
    for finding in findings:
        name = _paint(f"{finding.severity:<8}", finding.severity, color)
        at = "" if _line(finding.location) == _line(step.location) else f" at {finding.location}"
        yield f"{name}  {finding.code}{at}: {finding.message}"


def _line(location: Location) -> tuple[str, int | None]:
    return location.file, location.line


def _has(findings: list[Finding], severity: str) -> bool:
    return any(finding.severity == severity for finding in findings)


def _loose_finding(finding: Finding, color: bool) -> str:
    severity = _paint(finding.severity, finding.severity, color)
    return f"{finding.location}  {finding.code} {severity}: {finding.message}"


def _domain(entry: DomainEntry) -> str:
    return f"{entry}; {_witness(entry.witness)}" if entry.witness else str(entry)


def _drift(drift: Drift) -> str:
    if drift.share == 0:
        text = "no element differs"
    else:
        text = f"{percent(drift.share)} of elements differ"
        if drift.max_ulp_at_scale is not None:
            text += f", up to {number(drift.max_ulp_at_scale)} ulp of {drift.format} at scale"
        if drift.max_ulp is not None:
            text += f", {number(drift.max_ulp)} ulp of the result"
    if drift.codes_changed is not None:
        text += f", {percent(drift.codes_changed)} of codes change"
    drawn = drift.inputs if drift.seed is None else f"{drift.inputs}, seed {drift.seed}"
    compared, total = drift.sampled
    of = f"all {count(total)}" if compared == total else f"{count(compared)} of {total:,}"
    text += f" ({drawn}, {of})"
    if drift.nearer and drift.before_error_ulp is not None and drift.after_error_ulp is not None:
        errors = f"{number(drift.before_error_ulp)} -> {number(drift.after_error_ulp)} ulp"
        text += f"; nearer exact: {drift.nearer} ({errors})"
    return text


def _bound(drift: Drift) -> str:
    bound = drift.bound
    parts = []
    if bound and bound.times_sum_abs is not None:
        parts.append(f"{number(bound.times_sum_abs)} times the sum of absolute terms")
    if bound and bound.ulp is not None:
        parts.append(f"{number(bound.ulp)} ulp of {drift.format}")
    text = "at most " + ", ".join(parts) if parts else "none"
    return f"{text} ({bound.why})" if bound and bound.why else text


def _promise(name: str, promise: Promise) -> str:
    word = name.replace("_", "-")
    why = f" ({promise.cause})" if promise.cause else ""
    if promise.after is None:
        return f"{word} not decided{why}"
    if promise.after:
        return f"now {word}" if promise.before is False else word
    if promise.before is False:
        return f"not {word}, as before{why}"
    return f"no longer {word}{why}"


def _costs(cost: Cost) -> Iterator[str]:
    yield _row("cost", _cost(cost))
    if cost.fit:
        yield _row("device", _fit(cost.fit, cost))


def _cost(cost: Cost) -> str:
    before, after = cost.launches
    launches = plural(after, "launch") if before == after else f"{before} -> {after} launches"
    parts = [size_pair(cost.bytes), launches.replace("launchs", "launches")]
    if cost.local_bytes != (None, None):
        parts.append(f"local {size_pair(cost.local_bytes)}")
    parts.append(f"peak {size_pair(cost.peak_bytes)}")
    if cost.flops is not None and any(cost.flops):
        parts.append(operations(cost.flops))
        if all(cost.bytes) and (cost.fit is None or cost.fit.ridge is None):
            parts.append(f"{_intensity(cost)} FLOP per byte")
    at = ", ".join(f"{name} = {size}" for name, size in cost.at.items())
    return ", ".join(parts) + (f" (at {at})" if at else "")


def _fit(fit: Fit, cost: Cost) -> str:
    blocks = pair(*("?" if n is None else str(n) for n in fit.blocks))
    limits = ", ".join(
        f"{name} {pair(*('?' if n is None else str(n) for n in counts))}"
        for name, counts in fit.admitted.items()
    )
    one = "block" if blocks == "1" else "blocks"
    parts = [f"{fit.device}: {blocks} {one} on an SM ({limits})"]
    if any(share is not None for share in fit.occupancy):
        shares = ("?" if share is None else percent(share) for share in fit.occupancy)
        parts.append(f"{pair(*shares)} of its warps")
    if any(share is not None for share in fit.in_flight):
        covered = ("?" if share is None else f"{share:.3g}" for share in fit.in_flight)
        parts.append(f"{pair(*covered)} times the bytes under way that it needs")
    if cost.flops is not None and all(cost.bytes) and fit.ridge is not None:
        parts.append(f"{_intensity(cost)} of {fit.ridge:.3g} FLOP per byte")
    return ", ".join(parts)


def _intensity(cost: Cost) -> str:
    assert cost.flops is not None
    return pair(*(f"{n / size:.3g}" for n, size in zip(cost.flops, cost.bytes, strict=True)))


def _witness(witness: Witness) -> str:
    shown = sum(len(value.hex) for value in witness.inputs.values()) <= _MOST_VALUES_SHOWN
    inputs = ", ".join(_input(name, value, shown) for name, value in witness.inputs.items())
    before, after = ", ".join(witness.before), ", ".join(witness.after)
    where = f" `{witness.output}`" if witness.output else ""
    text = f"{inputs}: {before} -> {after} ({witness.format}{where})"
    return text + (", which the program cannot reach" if witness.reachable is False else "")


def _input(name: str, value: WitnessInput, shown: bool) -> str:
    shape = f"[{', '.join(str(size) for size in value.shape)}]"
    if not shown:
        return f"{name}: {value.format}{shape}"
    if len(value.hex) == 1:
        return f"{name} = {value.hex[0]}"
    shape = shape if len(value.shape) > 1 else ""
    return f"{name}{shape} = [{', '.join(value.hex)}]"


def _evidence(evidence: Evidence) -> str:
    parts = [evidence.by]
    if evidence.draws is not None:
        parts.append(f"{evidence.draws:,} draws")
    sizes = [", ".join(f"{k} = {v}" for k, v in entry.items()) for entry in evidence.sizes]
    if sizes:
        parts.append("at " + "; ".join(sizes))
    if evidence.assumes:
        parts.append("assuming " + ", ".join(evidence.assumes))
    text = " ".join(parts)
    return f"{text}: {evidence.detail}" if evidence.detail else text


def _budget(budget: Budget, cost: bool = False) -> str:
    """Say what is allowed and demanded; of costs, where one is not as demanded; else nothing."""
    parts = [f"`{budget.change}`"] if budget.change else []
    scale = "of the result" if budget.elementwise else "at scale"
    parts += [f"{number(n)} ulp of {name} {scale}" for name, n in budget.max_ulp.items()]
    text = "allows " + ", ".join(parts) if parts else ""
    names = [name.replace("_", "-") for name in budget.promises]
    demands = ", ".join([*names, "no finding of COST"] if cost else names)
    wants = f"demands {demands}" if demands else ""
    return "; ".join(part for part in (text, wants) if part)
