"""Check a model against the one that ONNX Runtime made of it: `lastbit check A.onnx B.onnx`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import date
from typing import TYPE_CHECKING

from lastbit.change import Change
from lastbit.codes import ASSUMED_CODE, DIFFERENCE_CODES, OPAQUE_CODE
from lastbit.demands import budget_record, violations
from lastbit.errors import did_you_mean
from lastbit.importers.imported import Imported, ImportedFileError, Opaque
from lastbit.importers.onnx import read_onnx
from lastbit.importers.onnx.comparing import Dropped, aligned, dropped, own_names
from lastbit.importers.onnx.regions import Region, regions, words_of
from lastbit.importers.onnx.unrounded import same_unrounded
from lastbit.plan_model import Budget, Plan, Span
from lastbit.records import Evidence, Location
from lastbit.result import Finding, Result, Step, environment
from lastbit.verify.decide import Judged
from lastbit.verify.worst import judge_worst

if TYPE_CHECKING:
    from lastbit.importers.onnx.observing import Runs

DROPPED_CODE, FUSED_CODE = "FUS102", "FUS101"  # the rules drop-rounding and fuse-elementwise
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
            against the prediction.

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
    return compare(first, second, budget, seed, today or date.today(), runs)


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
    budget: Budget | None,
    seed: int,
    today: date,
    runs: Runs | None = None,
) -> Result:
    """Return the verdicts on two aligned models."""
    lost = {one.name: one for one in dropped(before, after)}
    steps: list[Step] = []
    findings: list[Finding] = []
    known: dict[str, tuple[Judged, str]] = {}
    for number, region in enumerate(regions(before, after), 1):
        identity = f"difference-{number}" if number > 1 else "difference"
        same_as = None
        if region.key in known:
            judged, same_as = known[region.key]
        else:
            judged = _judged(region, seed)
            known[region.key] = judged, identity
        step = _step(identity, region, judged, same_as, after, lost)
        seen = tuple(map(str, runs.observe(region))) if runs is not None else ()
        steps.append(replace(step, budget=budget_record(budget), notes=(*step.notes, *seen)))
        findings += _findings(steps[-1], judged, budget, region, lost)
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
        names = ", ".join(f"`{name}`" for name in read)
        verb = "differs" if len(read) == 1 else "differ"
        yield Step(
            id=f"opaque-{len(seen)}",
            title=f"{one.operator} reads {names}, which {verb}, and is known by its name only",
            location=Location(one.place.file or after.file, one.place.line or None),
            change=str(Change.UNKNOWN),
            at=one.gives,
        )


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
    if region.plan is None:
        return Judged("", Change.UNKNOWN, region.results, notes=(region.why,))
    if len(region.names) > MOST_JUDGED:
        return _bounded(region, region.plan)
    verdicts, notes = judge_worst(region.plan, seed)
    whole = verdicts.whole
    return replace(whole, notes=(*whole.notes, *notes))


def _bounded(region: Region, plan: Plan) -> Judged:
    """Return what a law says of a region that is too large to be judged on inputs."""
    note = f"{len(region.names)} values read one another: too many to be tried on inputs"
    if not same_unrounded(plan):
        return Judged("", Change.UNKNOWN, region.results, notes=(note,))
    detail = "both sides are the same program but for their roundings: at most `rounding`"
    law = Evidence("law", detail=detail)
    return Judged("", Change.ROUNDING, region.results, evidence=(law,), notes=(note, detail))


def _step(
    identity: str,
    region: Region,
    judged: Judged,
    same_as: str | None,
    after: Imported,
    lost: dict[str, Dropped],
) -> Step:
    named = [name for name in region.names if name in lost and lost[name].loses]
    shown = named or list(region.results) or list(own_names(region.names))
    listed = ", ".join(f"`{name}`" for name in shown[:MOST_NAMES])
    if len(shown) > MOST_NAMES:
        listed += f" and {len(shown) - MOST_NAMES} more"
    verb = "is" if len(shown) == 1 else "are"
    what = "no longer rounded as before" if named else "computed in another way"
    place = next((lost[name].place for name in region.names if name in lost), None)
    location = Location(after.file)
    if place is not None and place.file:
        location = Location(place.file, place.line or None, place.column or None)
    return Step(
        id=identity,
        title=f"{listed} {verb} {what}",
        location=location,
        change=str(judged.change),
        at=region.results or own_names(region.names),
        domain=judged.domain,
        promises=judged.promises,
        drift=judged.drift,
        witness=judged.witness,
        evidence=judged.evidence,
        notes=judged.notes,
        same_as=same_as,
    )


def _findings(
    step: Step,
    judged: Judged,
    budget: Budget | None,
    region: Region,
    lost: dict[str, Dropped],
) -> Iterator[Finding]:
    label = f"the region of {', '.join(f'`{name}`' for name in step.at[:MOST_NAMES])}"
    for _, sentence in violations(label, judged, budget):
        code = DIFFERENCE_CODES[judged.change]
        yield Finding(code, "error", sentence, step.location, step.id)
    for name in region.names:
        if name in lost:
            one = lost[name]
            place = one.place
            location = Location(place.file, place.line or None, place.column or None)
            code = DROPPED_CODE if one.loses else FUSED_CODE
            yield Finding(code, "note", str(one), location, step.id)
