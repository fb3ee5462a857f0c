"""The regions of a result: transforms that meet, held against what the plan demands of them.

A region is held to the loosest of its steps' budgets, and what a step does not meet by itself is
not said again: a finding about a region is about what only its steps together do.
"""

from __future__ import annotations

from collections.abc import Sequence

from lastbit.codes import DIFFERENCE_CODES
from lastbit.demands import budget_at, budget_record, loosest, violations
from lastbit.plan_model import Plan
from lastbit.records import Location
from lastbit.result import Finding, Region
from lastbit.verify.decide import Judged
from lastbit.verify.wholes import Whole


def regions_of(
    plan: Plan, wholes: Sequence[Whole], judged: Sequence[Judged]
) -> tuple[list[Region], list[Finding]]:
    """Return the regions of a plan, and what only all steps of one together do not meet.

    Args:
        plan: the plan.
        wholes: the verdicts on transforms that meet.
        judged: the verdict on each transform of the plan.
    """
    regions: list[Region] = []
    findings: list[Finding] = []
    for whole in wholes:
        region, found = _region(plan, whole, judged, regions)
        regions.append(region)
        findings += found
    return regions, findings


def _region(
    plan: Plan, whole: Whole, judged: Sequence[Judged], earlier: Sequence[Region]
) -> tuple[Region, list[Finding]]:
    verdict = whole.judged
    transforms = [plan.transforms[number] for number in whole.numbers]
    steps = tuple(transform.id for transform in transforms)
    at = tuple(dict.fromkeys(name for transform in transforms for name in transform.at))
    identity = _free(f"{at[0]}.region", {transform.id for transform in plan.transforms})
    own = [judged[number] for number in whole.numbers]
    budgets = [
        budget_at(plan, (*transform.at, *step.outputs))
        for transform, step in zip(transforms, own, strict=True)
    ]
    known = {
        what
        for step, budget in zip(own, budgets, strict=True)
        for what, _ in violations("", step, budget)
        if what != "change" or step.change >= verdict.change  # else the region does more
    }
    budget = loosest(budgets)
    label = f"{', '.join(f'`{step}`' for step in steps)} together"
    messages = [sentence for _, sentence in violations(label, verdict, budget, known)]
    code = DIFFERENCE_CODES[verdict.change]
    allow = next((a for a in plan.allows if messages and a.covers(code, at)), None)
    findings = [
        Finding(
            code,
            "error" if allow is None else "note",
            message if allow is None else f"{message}; allowed: {allow.reason}",
            Location(plan.file),
            identity,
        )
        for message in messages
    ]
    same_as = None if verdict.same_as is None else earlier[verdict.same_as].id
    region = Region(
        id=identity,
        location=Location(plan.file),
        at=at,
        steps=steps,
        change=str(verdict.change),
        set_by=None if whole.set_by is None else plan.transforms[whole.set_by].id,
        domain=verdict.domain,
        promises=verdict.promises,
        drift=verdict.drift,
        witness=verdict.witness,
        evidence=verdict.evidence,
        budget=budget_record(budget),
        allowed=allow is not None,
        allow_reason=None if allow is None else allow.reason,
        notes=verdict.notes,
        same_as=same_as if whole.alone is None else plan.transforms[whole.alone].id,
    )
    return region, findings


def _free(name: str, taken: set[str]) -> str:
    """Return a name that is not taken: the given one, or with a number."""
    names = (name if i == 1 else f"{name}-{i}" for i in range(1, len(taken) + 2))
    return next(name for name in names if name not in taken)
