"""Lint plans: judge each transform, and hold it against what the plan demands."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from datetime import date

from lastbit.change import Change
from lastbit.errors import InputError, Problem
from lastbit.plan import load_plan
from lastbit.plan_model import Allow, Budget, Plan, Transform
from lastbit.records import Budget as BudgetRecord
from lastbit.records import Location
from lastbit.result import Finding, Result, Step, environment
from lastbit.verify.decide import Judged
from lastbit.verify.difference import with_differences
from lastbit.verify.judge import Judge
from lastbit.verify.literals import with_size_symbols

Progress = Callable[[int, int, str], None]

# The codes of findings about a difference of two graphs, which no rule made.
DIFFERENCE_CODES = {
    Change.BITWISE: "FUS100",
    Change.REASSOCIATION: "RED200",
    Change.ROUNDING: "FUS100",
    Change.GRID: "QNT300",
    Change.MATH: "FUS100",
    Change.UNKNOWN: "FUS100",
}


def lint_plans(
    paths: Sequence[str],
    *,
    today: date | None = None,
    seed: int = 0,
    progress: Progress | None = None,
) -> Result:
    """Judge every transform of the plans.

    Args:
        paths: plan files.
        today: the day with which the ends of `[[allow]]` are compared; by default this day.
        seed: selects every draw.
        progress: called with steps done, steps in all, and the next step.

    Raises:
        InputError: plans that cannot be used, with every problem of each.
    """
    day = today or date.today()
    plans: list[Plan] = []
    problems: list[Problem] = []
    for path in paths:
        try:
            plans.append(with_differences(with_size_symbols(load_plan(path, day))))
        except InputError as error:
            problems += error.problems
    if problems:
        raise InputError(problems)
    total = sum(len(plan.transforms) for plan in plans)
    steps: list[Step] = []
    findings: list[Finding] = []
    for plan in plans:
        own: list[Step] = []
        if progress is not None and plan.transforms:
            progress(len(steps), total, plan.transforms[0].id)
        for number, (transform, judged) in enumerate(Judge(plan, seed).run(), 1):
            step, found = _step(plan, transform, judged, own)
            own.append(step)
            findings += found
            if progress is not None and number < len(plan.transforms):
                progress(len(steps) + number, total, plan.transforms[number].id)
        steps += own
        findings += _expired(plan)
    if progress is not None:
        progress(total, total, "")
    return Result.of("lint", steps, findings, environment(seed, day))


def _step(
    plan: Plan, transform: Transform, judged: Judged, earlier: Sequence[Step]
) -> tuple[Step, list[Finding]]:
    rule = transform.rule
    place = transform.place
    location = Location(plan.file, place.line or None, place.column or None)
    budget = _budget(plan, transform, judged)
    messages = list(_violations(transform, judged, budget))
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
    notes = judged.notes if not judged.rejected else (*judged.notes, judged.rejected)
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
        witness=judged.witness,
        evidence=judged.evidence,
        budget=None if budget is None else _record(budget),
        allowed=allow is not None,
        allow_reason=None if allow is None else allow.reason,
        notes=notes,
        same_as=None if judged.same_as is None else earlier[judged.same_as].id,
    )
    return step, findings


def _budget(plan: Plan, transform: Transform, judged: Judged) -> Budget | None:
    """Return the demand at the values that a step changes: a node's own, else the plan's."""
    for name in (*transform.at, *judged.outputs):
        if name in plan.node_budgets:
            return plan.node_budgets[name]
    return plan.budget


def _record(budget: Budget) -> BudgetRecord:
    return BudgetRecord(
        None if budget.change is None else str(budget.change),
        {name: float(value) for name, value in budget.max_ulp.items()},
        budget.elementwise,
        budget.promises,
    )


def _violations(transform: Transform, judged: Judged, budget: Budget | None) -> Iterator[str]:
    """Yield a sentence for each demand that a step does not meet."""
    label = f"{transform.rule.name} at {', '.join(f'`{n}`' for n in transform.at)}"
    if judged.rejected:
        yield judged.rejected.removeprefix(f"{transform.rule.code} ").rstrip(".")
        return
    change = judged.change
    most = budget.change if budget is not None and budget.change is not None else None
    if change == Change.UNKNOWN:
        yield f"{label}: the kind of change is unknown"
    elif most is not None and change > most:
        yield f"{label} is a change of `{change}`; the budget allows `{most}`"
    elif most is None and change == Change.MATH:
        yield f"{label} computes another function of real numbers"
    claim = transform.rule.claim
    if change > claim and change != Change.UNKNOWN:
        yield f"{label} claims `{claim}`, but is a change of `{change}`"
    for entry in judged.domain:
        if entry.new_non_finite:
            yield f"{label} brings {entry.kind} on {entry.inputs}"
    if budget is None:
        return
    drift = judged.drift
    if drift is not None and drift.format in budget.max_ulp:
        limit = float(budget.max_ulp[drift.format])
        value = drift.max_ulp if budget.elementwise else drift.max_ulp_at_scale
        unit = "ulp" if budget.elementwise else "ulp at scale"
        if value is None or value > limit:
            shown = "an unknown number of" if value is None else f"{value:g}"
            yield f"{label} drifts by {shown} {unit} of {drift.format}; allowed: {limit:g}"
    for name in budget.promises:
        promise = judged.promises.get(name)
        if promise is None or promise.after is not True:
            word = name.replace("_", "-")
            broken = promise is not None and promise.after is False
            why = f": {promise.cause}" if promise is not None and promise.cause else ""
            yield f"{label} {'is not' if broken else 'is not known to be'} {word}{why}"


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
