"""The verdicts on transforms that meet: which step sets them, and what the law says of them.

Agreement under a policy is an equivalence, and agreement under a policy proves that under looser
ones. So a whole is no worse a kind of change than the worst of its steps, and a step that keeps
every bit, the domain and the promises leaves the verdict to the others. This law answers where at
most one step does anything, and bounds the answer where the whole cannot be judged.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain

from lastbit.change import Change
from lastbit.plan_model import Plan
from lastbit.records import PROMISES, DomainEntry, Evidence, Promise
from lastbit.verify.decide import Judged

NO_SPECIAL = "too large to be put to special inputs; the domain is that of its steps"


@dataclass(frozen=True, slots=True)
class Whole:
    """The verdict on transforms that meet.

    Attributes:
        numbers: the places of the transforms in the plan.
        judged: what they do together; `same_as` is the place of an equal whole among the wholes.
        set_by: the first transform whose own change is that of the whole, or None.
        alone: the only transform that does anything, whose verdict this is, or None.
    """

    numbers: tuple[int, ...]
    judged: Judged
    set_by: int | None = None
    alone: int | None = None


def keeps_all(judged: Judged) -> bool:
    """Return whether a transform changes no bit, no domain and no promise."""
    kept = all(promise.before == promise.after for promise in judged.promises.values())
    return judged.change == Change.BITWISE and not judged.domain and kept


def by_law(numbers: tuple[int, ...], steps: Mapping[int, Judged]) -> Whole | None:
    """Return the verdict on transforms of which at most one does anything; else None."""
    doing = [number for number in numbers if not keeps_all(steps[number])]
    if len(doing) > 1:
        return None
    if doing:
        step = steps[doing[0]]
        detail = "the other steps keep every bit, the domain and the promises"
        law = Evidence("law", detail=detail)
        judged = replace(step, title="", evidence=(*step.evidence, law), notes=(), same_as=None)
        return Whole(numbers, judged, doing[0], doing[0])
    law = Evidence("law", detail="each step keeps every bit, the domain and the promises")
    first = steps[numbers[0]]
    outputs = tuple(dict.fromkeys(chain.from_iterable(steps[n].outputs for n in numbers)))
    judged = Judged("", Change.BITWISE, outputs, promises=first.promises, evidence=(law,))
    return Whole(numbers, judged)


def bounded(numbers: tuple[int, ...], steps: Mapping[int, Judged], why: str) -> Judged:
    """Return the most that transforms can do together, where the whole cannot be judged."""
    own = [steps[number] for number in numbers]
    promises = {}
    for name in PROMISES:
        found = [judged.promises[name] for judged in own if name in judged.promises]
        if found:
            cause = next((p.cause for p in found if p.after is not True), None)
            after = _all([p.after for p in found])
            promises[name] = Promise(_all([p.before for p in found]), after, cause)
    return Judged(
        "",
        max(judged.change for judged in own),
        tuple(dict.fromkeys(chain.from_iterable(judged.outputs for judged in own))),
        _domains(own),
        promises,
        evidence=(Evidence("law", detail="a whole is no worse than the worst of its steps"),),
        notes=(f"the most that the steps can do; not judged as one change: {why.rstrip('.')}",),
    )


def _domains(own: Iterable[Judged]) -> tuple[DomainEntry, ...]:
    """Return the domain entries of steps, each class of inputs once."""
    found: dict[tuple[str, str, str], DomainEntry] = {}
    for entry in chain.from_iterable(judged.domain for judged in own):
        found.setdefault((entry.kind, entry.side, entry.inputs), entry)
    return tuple(found.values())


def _all(found: Sequence[bool | None]) -> bool | None:
    if False in found:
        return False
    return None if None in found else True


def whole(
    plan: Plan,
    numbers: tuple[int, ...],
    steps: Mapping[int, Judged],
    judged: Judged,
    lasting: Collection[int] | None = None,
) -> Whole:
    """Return a verdict on transforms together, with the step that set it.

    That steps cancel must be proven; where no difference was found among samples, they count.

    Args:
        plan: the plan.
        numbers: the places of the transforms.
        steps: the verdict on each by itself.
        judged: the verdict on all of them.
        lasting: those that later ones neither undo nor overwrite; only they set the verdict.
    """
    own = {number: steps[number].change for number in numbers}
    worst = max(own.values())
    sampled = any(evidence.by == "sampled" for evidence in judged.evidence)
    if judged.change == Change.UNKNOWN or (sampled and judged.change < worst):
        most = bounded(numbers, steps, next(iter(judged.notes), "nothing was decided"))
        if judged.promises:  # all else was found out
            shown = "the most that the steps can do; that they cancel is not shown"
            judged = replace(judged, change=most.change, witness=None, notes=(*judged.notes, shown))
            most = replace(judged, evidence=(*judged.evidence, *most.evidence))
        judged = most
    if NO_SPECIAL in judged.notes:
        judged = replace(judged, domain=_domains(steps[number] for number in numbers))
    notes = [*judged.notes, *_left_out(plan, numbers, steps)]
    if judged.change < worst:
        cancelled = [f"`{plan.transforms[n].id}`" for n, c in own.items() if c > judged.change]
        notes.append(f"together less than {_listed(cancelled)} alone: changes that cancel")
    elif judged.change > worst:
        notes.append("together more than each of the steps alone")
    setting = [number for number, change in own.items() if change == judged.change]
    if judged.change == Change.BITWISE:
        setting = [n for n in setting if judged.domain and steps[n].domain and worst <= "bitwise"]
    if lasting is not None:
        setting = [n for n in setting if n in lasting] or setting
    return Whole(numbers, replace(judged, notes=tuple(notes)), next(iter(setting), None))


def applied_in(
    plan: Plan, numbers: tuple[int, ...], steps: Mapping[int, Judged]
) -> tuple[int, ...]:
    """Return the transforms that a whole is made of: without those that only place values."""
    return tuple(
        number
        for number in numbers
        if not (plan.transforms[number].rule.placement and keeps_all(steps[number]))
    )


def _left_out(plan: Plan, numbers: tuple[int, ...], steps: Mapping[int, Judged]) -> Iterable[str]:
    names = [
        f"`{plan.transforms[n].id}`"
        for n in sorted({*numbers} - {*applied_in(plan, numbers, steps)})
    ]
    if names:
        places, keeps = ("places", "keeps") if len(names) == 1 else ("place", "keep")
        yield f"judged without {_listed(names)}, which only {places} values and {keeps} every bit"


def _listed(names: Sequence[str]) -> str:
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"
