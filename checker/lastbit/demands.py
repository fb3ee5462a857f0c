"""What a plan demands of a step or a region, and where that is not met."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from fractions import Fraction

from lastbit.change import Change
from lastbit.plan_model import Budget, Plan
from lastbit.records import Budget as BudgetRecord
from lastbit.result import Region, Step
from lastbit.verify.decide import Judged

Violation = tuple[str, str]  # what is not met, such as `change` or `nan`, and a sentence


def budget_at(plan: Plan, names: Sequence[str]) -> Budget | None:
    """Return the demand at some values: the first one's own that has one, else the plan's."""
    own = (plan.node_budgets[name] for name in names if name in plan.node_budgets)
    return next(own, plan.budget)


def loosest(budgets: Sequence[Budget | None]) -> Budget | None:
    """Return what each of several budgets demands; None if that is nothing."""
    given = [budget for budget in budgets if budget is not None]
    if not given or len(given) < len(budgets):
        return None
    changes = [budget.change for budget in given if budget.change is not None]
    formats = [name for name in given[0].max_ulp if all(name in b.max_ulp for b in given)]
    return Budget(
        change=max(changes) if len(changes) == len(given) else None,
        max_ulp={name: max(b.max_ulp[name] for b in given) for name in formats},
        elementwise=given[0].elementwise,
        promises=tuple(p for p in given[0].promises if all(p in b.promises for b in given)),
    )


def budget_record(budget: Budget | None) -> BudgetRecord | None:
    """Return a budget as results show it."""
    if budget is None:
        return None
    return BudgetRecord(
        None if budget.change is None else str(budget.change),
        {name: float(value) for name, value in budget.max_ulp.items()},
        budget.elementwise,
        budget.promises,
    )


def exceeds(verdict: Step | Region) -> bool:
    """Return whether the verdict on a step or a region, as a result holds it, breaks its budget."""
    given = verdict.budget
    if given is None:
        return False
    budget = Budget(
        change=None if given.change is None else Change(given.change),
        max_ulp={name: Fraction(value) for name, value in given.max_ulp.items()},
        elementwise=given.elementwise,
        promises=given.promises,
    )
    judged = Judged(
        "",
        Change(verdict.change),
        domain=verdict.domain,
        promises=verdict.promises,
        drift=verdict.drift,
    )
    return any(_violations("", judged, budget))


def violations(
    label: str, judged: Judged, budget: Budget | None, known: Collection[str] = ()
) -> Iterator[Violation]:
    """Yield each demand that a verdict does not meet.

    Args:
        label: what was judged, as the subject of a sentence.
        judged: the verdict.
        budget: the demand.
        known: what is not met elsewhere already, and not said again.
    """
    for what, sentence in _violations(label, judged, budget):
        if what not in known:
            yield what, sentence


def _violations(label: str, judged: Judged, budget: Budget | None) -> Iterator[Violation]:
    change = judged.change
    most = None if budget is None else budget.change
    if change == Change.UNKNOWN:
        yield "change", f"{label}: the kind of change is unknown"
    elif most is not None and change > most:
        yield "change", f"{label} is a change of `{change}`; the budget allows `{most}`"
    elif most is None and change == Change.MATH:
        yield "change", f"{label} computes another function of real numbers"
    for entry in judged.domain:
        if entry.new_non_finite:
            yield entry.kind, f"{label} brings {entry.kind} on {entry.inputs}"
    if budget is None:
        return
    drift = judged.drift
    if drift is not None and drift.format in budget.max_ulp:
        limit = float(budget.max_ulp[drift.format])
        value = drift.max_ulp if budget.elementwise else drift.max_ulp_at_scale
        unit = "ulp" if budget.elementwise else "ulp at scale"
        if value is None or value > limit:
            shown = "an unknown number of" if value is None else f"{value:g}"
            sentence = f"drifts by {shown} {unit} of {drift.format}; allowed: {limit:g}"
            yield f"drift in {drift.format}", f"{label} {sentence}"
    for name in budget.promises:
        promise = judged.promises.get(name)
        if promise is None or promise.after is not True:
            word = name.replace("_", "-")
            broken = promise is not None and promise.after is False
            why = f": {promise.cause}" if promise is not None and promise.cause else ""
            yield name, f"{label} {'is not' if broken else 'is not known to be'} {word}{why}"
