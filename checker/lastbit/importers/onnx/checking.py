"""Check a model against the one that ONNX Runtime made of it: `lastbit check A.onnx B.onnx`."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import date
from typing import TYPE_CHECKING

from lastbit.allowing import with_allows
from lastbit.change import Change
from lastbit.codes import ASSUMED_CODE, DIFFERENCE_CODES, OPAQUE_CODE
from lastbit.demands import budget_at
from lastbit.errors import did_you_mean
from lastbit.importers.imported import Imported, ImportedFileError, Opaque
from lastbit.importers.onnx import read_onnx
from lastbit.importers.onnx.comparing import Dropped, aligned, dropped, own_names
from lastbit.importers.onnx.regions import Opener, Region, regions
from lastbit.importers.onnx.unrounded import same_unrounded
from lastbit.importers.renaming import words_of
from lastbit.importers.verdicts import (
    Verdicts,
    judged_region,
    listed,
    step_of,
    undecided,
    unmet,
    verb,
)
from lastbit.plan_model import Budget, Distribution, Plan, Span
from lastbit.records import Evidence, Location
from lastbit.result import Finding, Result, Step, environment
from lastbit.verify.decide import Judged

if TYPE_CHECKING:
    from lastbit.importers.onnx.levels import Level
    from lastbit.importers.onnx.observing import Runs

DROPPED_CODE, FUSED_CODE = "FUS102", "FUS101"  # the rules drop-rounding and fuse-elementwise
DRAWN = "the values of each region are drawn"
MOST_JUDGED = 80  # values of a region that is tried on inputs
MOST_NAMES = 8  # that a title lists


def check_onnx(
    before: str,
    after: str,
    *,
    symbols: Mapping[str, tuple[int, int]] | None = None,
    batch: str | None = None,
    budget: Budget | None = None,
    seed: int = 0,
    today: date | None = None,
    run: bool = False,
) -> Result:
    """Say region by region what kind of change the second model is.

    Args:
        before: the file of a model.
        after: that of the one that ONNX Runtime made of it.
        symbols: the smallest and the largest size of symbols; others take those from 1 to 2000.
        batch: the symbol that counts rows; None: that of the first axis of the first input.
        budget: what is demanded; None: only another function fails.
        seed: selects every draw.
        today: the day that the result names.
        run: whether both models are run with ONNX Runtime, the first node by node, and held
            against the prediction; and the first level that changes a verdict is named.

    Raises:
        InputError: a file cannot be read or run, or the two have other inputs or results.
    """
    first = _sized(read_onnx(before), symbols or {}, batch)
    second = aligned(first, read_onnx(after))
    runs = None
    if run:
        from lastbit.importers.onnx.observing import Runs

        runs = Runs(
            first,
            second,
            {name: span.high for name, span in first.symbols.items() if name in (symbols or {})},
            seed,
        )
    return compare(first, second, lambda _: budget, seed, today or date.today(), runs)


def is_onnx_pair(plan: Plan) -> bool:
    """Return whether a plan compares a model with what ONNX Runtime made of it."""
    files = [model.file.lower() for model in plan.imports]
    return plan.after is not None and len(files) == 2 and all(f.endswith(".onnx") for f in files)


def check_plan(plan: Plan, seed: int, today: date) -> Result:
    """Judge the two models of a plan, region by region, against what the plan demands and allows.

    Args:
        plan: one whose two graphs are imported from files of ONNX.
        seed: selects every draw.
        today: the day that the result names.

    Raises:
        InputError: a model does not fit together.
    """
    first, second = plan.imports
    drawn = {name: one for name, one in plan.inputs.items() if isinstance(one, Distribution)}
    given = {**first.inputs, **drawn}
    first = replace(first, symbols=plan.symbols, batch=plan.batch, inputs=given)
    result = compare(first, second, lambda names: budget_at(plan, names), seed, today)
    notes = [
        Finding(
            ASSUMED_CODE,
            "warning",
            f"the data of `{name}` is not read: {DRAWN}",
            Location(plan.file),
        )
        for name, one in plan.inputs.items()
        if not isinstance(one, Distribution)
    ]
    result = with_allows(result, plan.allows)
    return Result.of("lint", result.steps, [*result.findings, *notes], result.environment)


def _sized(model: Imported, symbols: Mapping[str, tuple[int, int]], batch: str | None) -> Imported:
    for name in (*symbols, *([batch] if batch else [])):
        if name not in model.symbols:
            remedy = did_you_mean(name, model.symbols) if model.symbols else "All are numbers."
            raise ImportedFileError(model.file, f"no size has the symbol {name!r}", remedy)
    spans = {name: Span(low, high, high) for name, (low, high) in symbols.items()}
    return replace(model, symbols={**model.symbols, **spans}, batch=batch or model.batch)


def compare(
    before: Imported,
    after: Imported,
    demand: Callable[[Sequence[str]], Budget | None],
    seed: int,
    today: date,
    runs: Runs | None = None,
) -> Result:
    """Return the verdicts on two aligned models.

    Args:
        before: the first.
        after: the second, in the names of the first.
        demand: gives what is demanded of some values.
        seed: selects every draw.
        today: the day that the result names.
        runs: both models, run; None: they are not.
    """
    lost = {one.name: one for one in dropped(before, after)}
    steps: list[Step] = []
    findings: list[Finding] = []
    verdicts = Verdicts(seed, _judged)
    levels: tuple[Level, ...] = ()
    if runs is not None:
        from lastbit.importers.onnx.levels import history, levels_of

        levels = levels_of(before, lambda region: verdicts.of(region).change)
    opener = Opener(before, after, lambda region: verdicts.of(region).change)
    for number, region in enumerate(map(opener.of, regions(before, after)), 1):
        identity = f"difference-{number}" if number > 1 else "difference"
        judged, same_as = verdicts.step(region, identity)
        seen: list[str] = []
        if runs is not None:
            seen = [history(levels, region.names), *map(str, runs.observe(region))]
        title, location = _heading(region, after, lost)
        budget = demand(region.names)
        step = step_of(
            judged,
            identity=identity,
            title=title,
            location=location,
            at=region.results or own_names(region.names),
            budget=budget,
            notes=seen,
            same_as=same_as,
        )
        steps.append(step)
        findings += unmet(step, judged, budget, region.opaque)
        findings += _lost(step, region, lost, levels)
    for step in _opaque(before, after, steps):
        steps.append(step)
        findings.append(Finding(OPAQUE_CODE, "error", step.title, step.location, step.id))
    decided = any(step.change != "bitwise" for step in steps)
    findings += _about_run(runs, before, after, decided)
    findings += _about_models(before, after)
    return Result.of("check", steps, findings, environment(seed, today))


def _opaque(before: Imported, after: Imported, steps: Sequence[Step]) -> Iterator[Step]:
    """Yield an undecided step for each opaque operator of both models that reads what differs."""
    changed = {name for step in steps if step.change != "bitwise" for name in step.at}
    given = {name: one for one in after.opaque for name in one.gives}
    foreign = {name for one in before.opaque for name in one.gives} ^ given.keys()
    seen: list[Opaque] = []
    for st in after.program.statements:
        one = given.get(st.name)
        if one is None or one in seen:
            reads = words_of(st.expr or "")
            if st.expr is not None and not changed.isdisjoint(reads):
                changed.add(st.name)
            continue
        seen.append(one)
        read = [name for name in one.reads if name in changed]
        if not read or foreign.intersection(one.gives):
            continue
        changed |= set(one.gives)
        yield undecided(one, read, len(seen), after.file)


def _about_models(before: Imported, after: Imported) -> Iterator[Finding]:
    """Yield what was assumed, and which operators are opaque."""
    for model in (before, after):
        names = ", ".join(dict.fromkeys(one.operator for one in model.opaque))
        if names:
            message = f"known by their names only: {names}"
            yield Finding(OPAQUE_CODE, "note", message, Location(model.file))
        if model.assumed:
            message = "; ".join(model.assumed)
            yield Finding(ASSUMED_CODE, "note", message, Location(model.file))


def _about_run(
    runs: Runs | None, before: Imported, after: Imported, decided: bool
) -> Iterator[Finding]:
    """Yield what the runs say of the results; bits that nothing explains are an error."""
    code = DIFFERENCE_CODES[Change.UNKNOWN]
    for name in () if runs is None or decided else runs.other_bits():
        message = (
            f"run as it stands, {before.file} gives other bits for `{name}` than this file, and "
            "nothing that was compared differs: what makes them is not known"
        )
        yield Finding(code, "error", message, Location(after.file))
    for name in () if runs is None else runs.differs:
        message = (
            f"the first model, run whole, gives other bits for `{name}` than this file: it is not "
            "what ONNX Runtime makes of it here"
        )
        yield Finding(code, "warning", message, Location(after.file))


def _judged(region: Region, seed: int) -> Judged:
    """Return the verdict on a region, by its inputs or else by a law."""
    if region.plan is None:
        return judged_region(region, seed)
    if len(region.names) > MOST_JUDGED:
        note = f"{len(region.names)} values read one another: too many to be tried on inputs"
        undecided = Judged("", Change.UNKNOWN, region.results, notes=(note,))
        return _bounded(undecided, region.plan)
    found = judged_region(region, seed)
    return _bounded(found, region.plan) if found.change == Change.UNKNOWN else found


def _bounded(judged: Judged, plan: Plan) -> Judged:
    """Return what a law says of a region that no inputs decide."""
    if not same_unrounded(plan):
        return judged
    detail = "both sides are the same program but for their roundings: at most `rounding`"
    law = Evidence("law", detail=detail)
    return replace(judged, change=Change.ROUNDING, evidence=(law,), notes=(*judged.notes, detail))


def _heading(region: Region, after: Imported, lost: Mapping[str, Dropped]) -> tuple[str, Location]:
    """Return what became of a region, in one line, and where a model states it."""
    named = [name for name in region.names if name in lost and lost[name].loses]
    shown = named or list(region.results) or list(own_names(region.names))
    what = "no longer rounded as before" if named else "computed in another way"
    place = next((lost[name].place for name in region.names if name in lost), None)
    location = Location(after.file)
    if place is not None and place.file:
        location = Location(place.file, place.line or None, place.column or None)
    return f"{listed(shown, MOST_NAMES)} {verb(shown)} {what}", location


def _lost(
    step: Step, region: Region, lost: Mapping[str, Dropped], levels: Sequence[Level]
) -> Iterator[Finding]:
    """Yield a note for each value of a region that is no longer rounded, or is gone."""
    for one in (lost[name] for name in region.names if name in lost):
        first = next((level.name for level in levels if one.name in level.dropped), None)
        message = f"{one}; first at level `{first}`" if first else str(one)
        place = one.place
        location = Location(place.file, place.line or None, place.column or None)
        code = DROPPED_CODE if one.loses else FUSED_CODE
        yield Finding(code, "note", message, location, step.id)
