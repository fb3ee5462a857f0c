"""Judge what Inductor's kernels do against the graph that it was given, region by region."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import date

from lastbit.change import Change
from lastbit.codes import ASSUMED_CODE, DIFFERENCE_CODES, OPAQUE_CODE
from lastbit.demands import budget_record, violations
from lastbit.errors import Place
from lastbit.importers.imported import Imported
from lastbit.importers.inductor.folder import graph_folders
from lastbit.importers.inductor.reading import Dropped, Merged, Reading, read_graph_folder
from lastbit.importers.onnx.comparing import aligned
from lastbit.importers.onnx.regions import Region, regions
from lastbit.plan_model import Budget
from lastbit.records import Location
from lastbit.result import Finding, Result, Step, environment
from lastbit.verify.decide import Judged
from lastbit.verify.worst import judge_worst

DROPPED_CODE = "FUS102"  # the rule drop-rounding
MOST_NAMES = 6  # that a title or a message lists
BY_KERNELS = "first changed by the kernels; Inductor's passes over the graph change nothing here"
PART = "__"  # in names of statements inside a node

_ROUNDED = re.compile(r"\bround\(\(?['\d-]")  # a number that is rounded

Observe = Callable[[Reading, Region], Iterable[str]]


@dataclass(frozen=True, slots=True)
class Compared:
    """The verdicts on one graph.

    Attributes:
        reading: the graph.
        steps: one for each region that differs.
        findings: about them, and about what was read.
    """

    reading: Reading
    steps: tuple[Step, ...]
    findings: tuple[Finding, ...]


def lint_folder(path: str, seed: int = 0, budget: Budget | None = None) -> list[Compared]:
    """Judge every graph of a debug folder.

    Args:
        path: the folder, as the user named it.
        seed: selects every draw.
        budget: what is demanded; None: only another function fails.

    Raises:
        InputError: a file of it cannot be read.
    """
    readings = [read_graph_folder(folder) for folder in graph_folders(path)]
    several = len(readings) > 1
    return [
        compare(reading, seed, budget, prefix=f"graph-{number}." if several else "")
        for number, reading in enumerate(readings, 1)
    ]


def result_of(compared: Sequence[Compared], command: str, seed: int, today: date) -> Result:
    """Return the result of several graphs."""
    return with_compared(Result.of(command, [], [], environment(seed, today)), compared)


def with_compared(result: Result, compared: Sequence[Compared]) -> Result:
    """Return a result with the verdicts on graphs added."""
    steps = [*result.steps, *(step for one in compared for step in one.steps)]
    findings = [*result.findings, *(finding for one in compared for finding in one.findings)]
    return Result.of(result.command, steps, findings, result.environment, result.regions)


def compare(
    reading: Reading,
    seed: int = 0,
    budget: Budget | None = None,
    prefix: str = "",
    observe: Observe | None = None,
) -> Compared:
    """Judge one graph.

    Args:
        reading: the graph.
        seed: selects every draw.
        budget: what is demanded; None: only another function fails.
        prefix: of the steps' ids.
        observe: gives sentences on a region that was run.
    """
    before, after = reading.before, aligned(reading.before, reading.after)
    by_passes = _changed(before, aligned(before, reading.middle))
    steps: list[Step] = []
    findings: list[Finding] = []
    known: dict[str, tuple[Judged, str]] = {}
    told: set[str] = set()
    for number, region in enumerate(regions(before, after), 1):
        identity = f"{prefix}difference{f'-{number}' if number > 1 else ''}"
        same_as = None
        if region.key in known:
            judged, same_as = known[region.key]
        else:
            judged = _judged(region, seed)
            known[region.key] = judged, identity
        step = _step(identity, region, judged, same_as, reading)
        seen = tuple(observe(reading, region)) if observe is not None else ()
        early = not by_passes.isdisjoint(region.names)
        by = "first changed by Inductor's passes over the graph" if early else BY_KERNELS
        notes = (*step.notes, by, *seen)
        step = replace(step, budget=budget_record(budget), notes=notes)
        steps.append(step)
        findings += _findings(step, judged, budget, region, reading, told)
    findings += _about(reading)
    return Compared(reading, tuple(steps), tuple(findings))


def _changed(before: Imported, after: Imported) -> set[str]:
    """Return the values that two models do not state alike."""
    facts = [
        {
            st.name: (st.expr, str(st.rounding), str(st.acc), str(st.schedule))
            for st in model.program.statements
        }
        for model in (before, after)
    ]
    names = {*facts[0], *facts[1]}
    return {name for name in names if facts[0].get(name) != facts[1].get(name)}


def _judged(region: Region, seed: int) -> Judged:
    if region.plan is None:
        return Judged("", Change.UNKNOWN, region.results, notes=(region.why,))
    verdicts, notes = judge_worst(region.plan, seed)
    whole = verdicts.whole
    return replace(whole, notes=(*whole.notes, *notes))


def _lost(region: Region, reading: Reading) -> list[Dropped]:
    """Return the roundings that are gone in a region."""
    names = {_node(name, reading) for name in region.names}
    return [one for one in reading.dropped if one.name in names]


def _literals(region: Region, reading: Reading) -> list[str]:
    """Return the values beside which a number was rounded before, and is not after."""
    texts = [
        {st.name: st.expr or "" for st in model.program.statements}
        for model in (reading.before, reading.after)
    ]
    return [
        name
        for name in region.names
        if _ROUNDED.search(texts[0].get(name, "")) and not _ROUNDED.search(texts[1].get(name, ""))
    ]


def _node(name: str, reading: Reading) -> str:
    """Return the node of a value of the program."""
    for model in (reading.before, reading.after):
        origin = model.origins.get(name)
        if origin is not None:
            return origin.original.partition(PART)[0] or origin.original
    return name.partition(PART)[0]


def _step(
    identity: str, region: Region, judged: Judged, same_as: str | None, reading: Reading
) -> Step:
    lost = _lost(region, reading)
    merged = [one for one in reading.merged if one.name in region.names]
    gone: list[Dropped | Merged] = [*lost, *merged]
    names = list(dict.fromkeys(one.name for one in gone))
    kernels = list(dict.fromkeys(kernel for one in lost for kernel in one.kernels))
    if names:
        title = f"{_listed(names)} {_verb(names)} no longer rounded"
    elif literals := _literals(region, reading):
        title = f"a number beside {_listed(literals)} is no longer rounded first"
    else:
        shown = [n for n in region.results if PART not in n] or list(region.names)
        title = f"{_listed(shown)} {_verb(shown)} computed in another way"
    if kernels:
        title += f" in {', '.join(kernels[:MOST_NAMES])}"
    place = next((one.place for one in gone if one.place.file), Place())
    if not place.file:
        places = (
            reading.before.origins[n].place for n in region.names if n in reading.before.origins
        )
        place = next((one for one in places if one.file), Place())
    return Step(
        id=identity,
        title=title,
        location=_location(reading, place),
        change=str(judged.change),
        at=region.results or region.names,
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
    reading: Reading,
    told: set[str],
) -> Iterator[Finding]:
    label = f"the region of {_listed(step.at)}"
    for _, sentence in violations(label, judged, budget):
        code = DIFFERENCE_CODES[judged.change]
        yield Finding(code, "error", sentence, step.location, step.id)
    by_name: dict[str, list[Dropped]] = {}
    for one in _lost(region, reading):
        by_name.setdefault(one.name, []).append(one)
    for name, group in by_name.items():
        if name not in told:
            told.add(name)
            location = _location(reading, group[0].place)
            yield Finding(DROPPED_CODE, "warning", _sentence(name, group), location, step.id)
    for merged in reading.merged:
        if merged.name in region.names and merged.name not in told:
            told.add(merged.name)
            message = (
                f"`{merged.name}` is no longer rounded before it is added: `{merged.into}` is "
                f"{merged.operator}, one library call for both"
            )
            location = _location(reading, merged.place)
            yield Finding(DROPPED_CODE, "warning", message, location, step.id)


def _sentence(name: str, group: Sequence[Dropped]) -> str:
    readers = list(dict.fromkeys(one.reader for one in group if one.reader))
    where = list(dict.fromkeys(kernel for one in group for kernel in one.kernels))
    text = f"`{name}` is no longer rounded to {group[0].format}"
    if readers:
        text += f" before {_listed(readers)}"
    if any(one.reader is None for one in group):
        text += ", and is returned so" if readers else " before it is returned"
    if where:
        text += f", in {', '.join(where[:MOST_NAMES])}"
    if any(one.assumed for one in group):
        text += " (assumed: no loop body shows it)"
    return text


def _about(reading: Reading) -> Iterator[Finding]:
    """Yield what was read of the folder, and what was assumed."""
    shown = Location(reading.folder.shown)
    for model in (reading.before, reading.after):
        names = ", ".join(dict.fromkeys(one.operator for one in model.opaque))
        if names:
            yield Finding(OPAQUE_CODE, "note", f"known by their names only: {names}", shown)
    parts = [*reading.before.assumed, *reading.after.assumed]
    found = reading.readings
    if found is not None and found.computed:
        parts.append(
            f"{len(found.known)} of {len(found.computed)} values of the loop bodies are nodes of "
            "the graph"
        )
    parts += [f"{name} = {value}" for name, value in reading.flags.items()]
    own = len([name for name in reading.kernels if not name.startswith(("extern_", "torch."))])
    if own:
        touched = {kernel for one in reading.dropped for kernel in one.kernels}
        parts.append(f"{len(touched)} of {own} kernels drop a rounding")
    parts += [*reading.reductions, *reading.notes]
    yield Finding(ASSUMED_CODE, "note", "; ".join(dict.fromkeys(parts)), shown)


def _location(reading: Reading, place: Place) -> Location:
    if place.file:
        return Location(place.file, place.line or None)
    return Location(reading.folder.shown)


def _listed(names: Sequence[str]) -> str:
    text = ", ".join(f"`{name}`" for name in names[:MOST_NAMES])
    return text + (f" and {len(names) - MOST_NAMES} more" if len(names) > MOST_NAMES else "")


def _verb(names: Sequence[str]) -> str:
    return "is" if len(names) == 1 else "are"
