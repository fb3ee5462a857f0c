"""Check two `.pt2` files: their graphs, and on demand the numbers of their weights.

Weights are inputs of the graphs, the same ones on both sides. Where the files hold different
numbers, the models are other functions of their remaining inputs.
"""

from __future__ import annotations

from typing import Any

from lastbit.change import Change
from lastbit.checking import budget_of, check_models
from lastbit.codes import ASSUMED_CODE, DIFFERENCE_CODES, OPAQUE_CODE
from lastbit.demands import budget_record, violations
from lastbit.importers.pt2.weights import differences, weight_names
from lastbit.plan_model import Budget
from lastbit.records import Location
from lastbit.result import Finding, Result, Step
from lastbit.verify.decide import Judged


def check_pt2(before: str, after: str, *, weights: bool = False, **demands: Any) -> Result:
    """Say what kind of change it is from one file to another.

    Args:
        before: a `.pt2` file.
        after: another one with the same inputs and results.
        weights: whether the numbers of the weights are compared; else a note says that they are
            not.
        demands: see `lastbit.checking.check_models`.

    Raises:
        InputError: a file cannot be read, the two cannot be compared, or, with `weights`, a file
            does not hold a weight as plain bytes.
    """
    result = check_models(before, after, **demands)
    names = ("max_change", "max_ulp")
    change, ulp = (demands.get(name) for name in names)
    given = demands.get("elementwise", False), demands.get("promises", ())
    budget = budget_of(change, ulp, *given)
    steps, findings = _judged(before, after, budget) if weights else ([], _left_out(after))
    if not result.steps and not steps:
        findings = [_same(result, after, weights), *findings]
    return Result.of(
        result.command,
        [*result.steps, *steps],
        [*result.findings, *findings],
        result.environment,
        result.regions,
    )


def _same(result: Result, after: str, weights: bool) -> Finding:
    """Return the note that nothing differs, with what it rests on."""
    rests = []
    if weight_names(after) and not weights:
        rests.append("with equal weights")
    if any(one.code == OPAQUE_CODE for one in result.findings):
        rests.append("where operators known by name only give equal results on equal inputs")
    on = f", {' and '.join(rests)}" if rests else ""
    text = f"the two are one program: bitwise{on}"
    return Finding(ASSUMED_CODE, "note", text, Location(after))


def _left_out(after: str) -> list[Finding]:
    """Return the note that weights are not compared, where there are any."""
    count = len(weight_names(after))
    text = f"{_counted(count)} not compared; --weights compares them"
    return [Finding(ASSUMED_CODE, "note", text, Location(after))] if count else []


def _judged(before: str, after: str, budget: Budget | None) -> tuple[list[Step], list[Finding]]:
    """Return a step for each weight that differs, and what breaks the budget."""
    place = Location(after)
    steps, findings = [], []
    for number, one in enumerate(differences(before, after), 1):
        step = Step(
            id=f"weights-{number}",
            title=str(one),
            location=place,
            change=str(Change.MATH),
            at=(one.name,),
            budget=budget_record(budget),
        )
        steps.append(step)
        demanded = violations("", Judged("", Change.MATH), budget)
        if any(what == "change" for what, _ in demanded):
            code = DIFFERENCE_CODES[Change.MATH]
            findings.append(Finding(code, "error", f"the weight {one}", place, step.id))
    count = len(weight_names(after))
    if count and not steps:
        text = f"{_counted(count)} compared: the same bits"
        findings.append(Finding(ASSUMED_CODE, "note", text, place))
    return steps, findings


def _counted(count: int) -> str:
    return "1 weight is" if count == 1 else f"{count} weights are"
