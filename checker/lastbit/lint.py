"""Lint plans: judge each transform, and hold it against what the plan demands."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from datetime import date

from lastbit.change import Change
from lastbit.codes import DIFFERENCE_CODES
from lastbit.costing import NO_ROOM, Account, Ledger, at_start
from lastbit.demands import budget_at, budget_record, violations
from lastbit.errors import InputError, Problem
from lastbit.hazards import dangers
from lastbit.importers.inductor.comparing import Compared, lint_folder, with_compared
from lastbit.importers.inductor.folder import is_debug_folder
from lastbit.importers.load import is_model
from lastbit.importers.onnx.checking import check_plan, is_onnx_pair
from lastbit.plan import load_plan
from lastbit.plan_imports import finding_of, foreign, notes_of, opaque_steps, plan_of_model, sides
from lastbit.plan_model import Allow, Budget, Plan, Transform
from lastbit.plan_sizes import with_shrinking_sizes
from lastbit.records import Location
from lastbit.regions import regions_of
from lastbit.result import Finding, Region, Result, Step, environment
from lastbit.verify.bench import Bench
from lastbit.verify.decide import Judged
from lastbit.verify.difference import with_bits, with_differences
from lastbit.verify.judge import Judge
from lastbit.verify.literals import with_size_symbols
from lastbit.verify.worst import run_worst

Progress = Callable[[int, int, str], None]


def lint_plans(
    paths: Sequence[str],
    *,
    today: date | None = None,
    seed: int = 0,
    progress: Progress | None = None,
) -> Result:
    """Judge every transform of the plans.

    Args:
        paths: plan files, model files, which are judged as they stand, or debug folders of
            Inductor, in which the kernels are judged against the graph.
        today: the day with which the ends of `[[allow]]` are compared; by default this day.
        seed: selects every draw.
        progress: called with steps done, steps in all, and the next step.

    Raises:
        InputError: plans that cannot be used, with every problem of each.
    """
    day = today or date.today()
    plans: list[Plan] = []
    folders: list[Compared] = []
    pairs: list[Plan] = []
    problems: list[Problem] = []
    for path in paths:
        try:
            if is_debug_folder(path):
                folders += lint_folder(path, seed)
                continue
            plan = plan_of_model(path) if is_model(path) else load_plan(path, day)
            if is_onnx_pair(plan):
                pairs.append(plan)
            else:
                plans.append(prepared(plan))
        except InputError as error:
            problems += error.problems
    if problems:
        raise InputError(problems)
    result = judged_plans(plans, "lint", day, seed, progress)
    result = with_compared(result, folders) if folders else result
    return _with_pairs(result, pairs, day, seed) if pairs else result


def _with_pairs(result: Result, pairs: Sequence[Plan], day: date, seed: int) -> Result:
    """Return a result with the verdicts on models and what ONNX Runtime made of them."""
    steps, findings = list(result.steps), list(result.findings)
    for plan in pairs:
        found = check_plan(plan, seed, day)
        steps += found.steps
        bench = Bench(with_shrinking_sizes(plan))
        findings += [*found.findings, *dangers(plan, bench), *_expired(plan)]
    return Result.of(result.command, steps, findings, result.environment, result.regions)


def prepared(plan: Plan) -> Plan:
    """Return a plan ready to be judged.

    Raises:
        InputError: a result has no bits to compare.
    """
    small = with_shrinking_sizes(plan) if plan.imports else with_size_symbols(plan)
    return with_bits(with_differences(small))


def judged_plans(
    plans: Sequence[Plan], command: str, day: date, seed: int, progress: Progress | None = None
) -> Result:
    """Judge every transform of plans that are prepared.

    Args:
        plans: the plans.
        command: the command that the result names.
        day: the day that the result names.
        seed: selects every draw.
        progress: called with steps done, steps in all, and the next step.
    """
    total = sum(len(plan.transforms) for plan in plans)
    steps: list[Step] = []
    regions: list[Region] = []
    findings: list[Finding] = []
    for plan in plans:
        own: list[Step] = []
        verdicts: list[Judged] = []
        judge = Judge(plan, seed)
        ledger = Ledger(plan, judge.bench)
        if progress is not None and plan.transforms:
            progress(len(steps), total, plan.transforms[0].id)
        for number, (transform, judged) in enumerate(run_worst(judge), 1):
            account = ledger.step(number - 1, transform)
            step, found = _step(plan, transform, judged, account, own)
            own.append(step)
            verdicts.append(judged)
            findings += found
            if progress is not None and number < len(plan.transforms):
                progress(len(steps) + number, total, plan.transforms[number].id)
        for step in list(opaque_steps(plan, own)):
            own.append(step)
            findings.append(finding_of(step))
        steps += own
        together, found = regions_of(plan, judge.wholes, verdicts)
        regions += together
        findings += [*found, *dangers(plan, judge.bench), *_expired(plan), *notes_of(plan)]
        findings += _too_large(plan, judge.bench)
    if progress is not None:
        progress(total, total, "")
    return Result.of(command, steps, findings, environment(seed, day), regions)


def _step(
    plan: Plan, transform: Transform, judged: Judged, account: Account, earlier: Sequence[Step]
) -> tuple[Step, list[Finding]]:
    rule = transform.rule
    place = transform.place
    location = Location(place.file or plan.file, place.line or None, place.column or None)
    alone = foreign(plan, transform.at) if judged.change != Change.BITWISE else None
    if alone is not None:
        # What the operator gives was drawn as if nothing made it: no figure says anything.
        notes = (*judged.notes, alone)
        judged = Judged(
            judged.title,
            Change.UNKNOWN,
            judged.outputs,
            promises=judged.promises,
            notes=notes,
            same_as=judged.same_as,
        )
    budget = budget_at(plan, (*transform.at, *judged.outputs))
    messages = list(shortfalls(transform, judged, budget))
    allow = _allowed(plan, transform, judged) if messages else None
    severity = "error" if allow is None else "note"
    findings = [
        Finding(
            rule.code or DIFFERENCE_CODES[judged.change],
            severity,
            message if allow is None else f"{message}; allowed: {allow.reason}",
            location,
            transform.id,
        )
        for message in messages
    ]
    findings += _cost_findings(plan, transform, account, budget, location)
    notes = judged.notes if not judged.rejected else (*judged.notes, judged.rejected)
    places = sides(plan, dict.fromkeys((*transform.at, *judged.outputs)))
    notes = notes if places is None else (places, *notes)
    if account.cost is None and not judged.rejected:
        notes = (*notes, f"cost not counted: {account.why}")
    notes = (*notes, *account.notes)
    step = Step(
        id=transform.id,
        title=judged.title,
        location=location,
        change=str(judged.change),
        at=transform.at,
        rule=rule.name if rule.code else None,
        code=rule.code or None,
        claim=str(rule.claim) if rule.code else None,
        branch=transform.branch,
        domain=judged.domain,
        promises=judged.promises,
        drift=judged.drift,
        cost=account.cost,
        witness=judged.witness,
        evidence=judged.evidence,
        budget=budget_record(budget),
        allowed=allow is not None,
        allow_reason=None if allow is None else allow.reason,
        notes=notes,
        same_as=None if judged.same_as is None else earlier[judged.same_as].id,
    )
    return step, findings


def _cost_findings(
    plan: Plan, transform: Transform, account: Account, budget: Budget | None, location: Location
) -> Iterator[Finding]:
    """Yield what a reader should know of a step's cost; it fails only where the plan says so."""
    severity = "note" if budget is None or budget.cost is None else budget.cost
    for code, message in account.findings:
        allow = next((a for a in plan.allows if a.covers(code, transform.at)), None)
        if allow is None:
            yield Finding(code, severity, message, location, transform.id)
        else:
            text = f"{message}; allowed: {allow.reason}"
            yield Finding(code, "note", text, location, transform.id)


def _too_large(plan: Plan, bench: Bench) -> Iterator[Finding]:
    """Yield the kernels of a plan that do not fit on its device, whatever is changed later."""
    for launch, message in at_start(plan, bench.before(0, bench.true)):
        place, budget = launch.place, budget_at(plan, launch.values)
        location = Location(plan.file, place.line or None, place.column or None)
        severity = "note" if budget is None or budget.cost is None else budget.cost
        allows = [a for a in plan.allows if any(a.covers(NO_ROOM, (n,)) for n in launch.values)]
        if allows:
            severity, message = "note", f"{message}; allowed: {allows[0].reason}"
        yield Finding(NO_ROOM, severity, message, location)


def shortfalls(transform: Transform, judged: Judged, budget: Budget | None) -> Iterator[str]:
    """Yield a sentence for each demand that a step does not meet, those of its rule included."""
    label = f"{transform.rule.name} at {', '.join(f'`{n}`' for n in transform.at)}"
    if judged.rejected:
        yield judged.rejected.removeprefix(f"{transform.rule.code} ").rstrip(".")
        return
    for _, sentence in violations(label, judged, budget):
        yield sentence
    claim, change = transform.rule.claim, judged.change
    if change > claim and change != Change.UNKNOWN:
        yield f"{label} claims `{claim}`, but is a change of `{change}`"


def _allowed(plan: Plan, transform: Transform, judged: Judged) -> Allow | None:
    for allow in plan.allows:
        if allow.covers(transform.rule.code or DIFFERENCE_CODES[judged.change], transform.at):
            return allow
    return None


def _expired(plan: Plan) -> Iterator[Finding]:
    for allow in plan.allows:
        if allow.expired:
            location = Location(plan.file, allow.place.line or None, allow.place.column or None)
            message = f"the [[allow]] of {allow.code} ended on {allow.until}: {allow.reason}"
            yield Finding(allow.code, "warning", message, location)
