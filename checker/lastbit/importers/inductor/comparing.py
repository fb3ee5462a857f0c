"""Judge what Inductor's kernels do against the graph that it was given, region by region."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import date

from lastbit.change import Change
from lastbit.codes import ASSUMED_CODE, OPAQUE_CODE
from lastbit.errors import InputError, Place
from lastbit.importers import align
from lastbit.importers.imported import Imported
from lastbit.importers.inductor.building import program_of
from lastbit.importers.inductor.callers import caller_note, place_of
from lastbit.importers.inductor.folder import graph_folders
from lastbit.importers.inductor.fx import EIGHT, Graph, Ref, read_graph
from lastbit.importers.inductor.matching import NARROW
from lastbit.importers.inductor.meanings import CASTS, base_word
from lastbit.importers.inductor.passes import Chain
from lastbit.importers.inductor.reading import Dropped, Merged, Reading, read_graph_folder
from lastbit.importers.inductor.selfcheck import checked, is_stated, needed_by_results
from lastbit.importers.inductor.stages import (
    ALL_PASSES,
    Judgement,
    first_change,
    judged_stages,
    models_of,
    regions_of,
    unread,
)
from lastbit.importers.onnx.comparing import aligned
from lastbit.importers.onnx.regions import Region
from lastbit.importers.verdicts import MOST_NAMES, Verdicts, listed, step_of, unmet, verb
from lastbit.plan_model import Budget
from lastbit.records import Location
from lastbit.result import Finding, Result, Step, environment
from lastbit.verify.decide import Judged

DROPPED_CODE = "FUS102"  # the rule drop-rounding
PART = "__"  # in names of statements inside a node

_ROUNDED = re.compile(r"\bround\(\(?['\d-]")  # a number that is rounded

Observe = Callable[[Reading, Region], Iterable[str]]


@dataclass(frozen=True, slots=True)
class Compared:
    """The verdicts on one graph.

    Attributes:
        steps: one for each region that differs.
        findings: about them, and about what was read.
    """

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
    chain: Chain | None = None,
) -> Compared:
    """Judge one graph.

    Args:
        reading: the graph.
        seed: selects every draw.
        budget: what is demanded; None: only another function fails.
        prefix: of the steps' ids.
        observe: gives sentences on a region that was run.
        chain: the graph after each of Inductor's passes, where that was recorded.
    """
    before, after = reading.before, aligned(reading.before, reading.after)
    steps: list[Step] = []
    findings: list[Finding] = []
    verdicts = Verdicts(seed)
    told: set[str] = set()
    passes = _passes(reading, chain, verdicts)
    needed = needed_by_results(reading)
    found = sorted(  # what nothing that is returned hangs on decides nothing: it comes last
        regions_of(before, after, verdicts), key=lambda region: needed.isdisjoint(region.names)
    )
    for number, region in enumerate(found, 1):
        identity = f"{prefix}difference{f'-{number}' if number > 1 else ''}"
        judged, same_as = verdicts.step(region, identity)
        judged = checked(judged, _gone(region, reading), reading)
        seen = tuple(observe(reading, region)) if observe is not None else ()
        by = first_change(passes, region.names, judged.change)
        title, location = _heading(region, reading)
        step = step_of(
            judged,
            identity=identity,
            title=title,
            location=location,
            at=region.results or region.names,
            budget=budget,
            notes=(by, *_called(region, reading.before, chain), *seen),
            same_as=same_as,
        )
        steps.append(step)
        findings += _findings(step, judged, budget, region, reading, told)
    rest = _untold(reading, told, budget, f"{prefix}rounding")
    steps += rest.steps
    findings += [*rest.findings, *_about(reading, unread(passes))]
    return Compared(tuple(steps), tuple(findings))


def _untold(reading: Reading, told: set[str], budget: Budget | None, identity: str) -> Compared:
    """Return what is left of the dropped roundings: those that no region holds.

    Where the judged program drops them too, it is of no consequence for what is returned.
    """
    lost = [one for one in reading.dropped if _key(one) not in told]
    odd = [one for one in lost if not is_stated(one, reading)]
    if not odd:
        return Compared((), ())
    names = tuple(dict.fromkeys(one.name for one in odd))
    why = "the program of the kernels rounds there, so what this changes is not known"
    judged = Judged("", Change.UNKNOWN, names, notes=(why,))
    location = _location(reading, next((one.place for one in odd if one.place.file), Place()))
    step = step_of(
        judged,
        identity=identity,
        title=f"{listed(names)} {verb(names)} no longer rounded",
        location=location,
        at=names,
        budget=budget,
    )
    return Compared(
        (step,), (*_lost_findings(odd, reading, told, step), *unmet(step, judged, budget))
    )


def _passes(reading: Reading, chain: Chain | None, verdicts: Verdicts) -> list[Judgement]:
    """Return the verdicts on the graphs that single passes left; on the last one without them."""
    shown = reading.folder.shown
    models: list[tuple[str, Imported | InputError]] = []
    if chain is not None:
        models += models_of(reading.first, chain.stages, shown)
    last = models[-1][1] if models else reading.before
    if isinstance(last, InputError) or _differ(last, reading.middle):
        name = "what Inductor does after its last pass" if chain is not None else ALL_PASSES
        models.append((name, reading.middle))
    return judged_stages(reading.before, models, verdicts)


def _differ(first: Imported, second: Imported) -> bool:
    """Return whether two models state any value in different words."""
    one, other = (
        {st.name: (st.expr, st.rounding, st.acc, st.schedule) for st in model.program.statements}
        for model in (first, second)
    )
    return one != other


def compare_chain(
    chain: Chain, name: str, seed: int = 0, budget: Budget | None = None, prefix: str = ""
) -> Compared:
    """Judge what Inductor's passes made of a graph before it was divided and compiled.

    Args:
        chain: the graph before the passes, and after each.
        name: of the graph, as a report names it.
        seed: selects every draw.
        budget: what is demanded; None: only another function fails.
        prefix: of the steps' ids.
    """
    verdicts = Verdicts(seed)
    try:
        first = read_graph(chain.first, name)
        before = program_of(first, name)
    except InputError as error:
        message = f"the graph before {chain.kind} passes was not read: {error}".partition("\n")[0]
        return Compared((), (Finding(ASSUMED_CODE, "warning", message, Location(name)),))
    models = list(models_of(first, chain.stages, name))
    passes = judged_stages(before, models, verdicts, align.aligned)
    read = [model for _, model in models if not isinstance(model, InputError)]
    last = _nodes_of(chain, name)
    steps: list[Step] = []
    findings = [Finding(ASSUMED_CODE, "note", text, Location(name)) for text in unread(passes)]
    for region in regions_of(before, align.aligned(before, read[-1]), verdicts) if read else ():
        judged = verdicts.of(region)
        if judged.change == Change.BITWISE and not judged.domain:
            continue  # other words for the same bits
        identity = f"{prefix}{chain.kind}{f'-{len(steps) + 1}' if steps else ''}"
        judged, same_as = verdicts.step(region, identity)
        shown = [n for n in region.results if PART not in n] or list(region.names)
        place = place_of((*region.results, *region.names), before.origins)
        step = step_of(
            judged,
            identity=identity,
            title=f"{listed(shown)} {verb(shown)} computed in another way by a {chain.kind} pass",
            location=Location(place.file, place.line or None) if place.file else Location(name),
            at=region.results or region.names,
            budget=budget,
            notes=(
                *_called(region, before, chain),
                first_change(passes, region.names, judged.change),
            ),
            same_as=same_as,
        )
        steps.append(step)
        findings += unmet(step, judged, budget, region.opaque)
        findings += _joined_casts(region.names, first, last, before, step)
    return Compared(tuple(steps), tuple(findings))


def _nodes_of(chain: Chain, name: str) -> set[str]:
    """Return the nodes that the passes left; none where that cannot be read."""
    for stage in reversed(chain.stages):
        with contextlib.suppress(InputError):
            return set(read_graph(stage.text, name).nodes)
    return set()


def _joined_casts(
    names: Iterable[str], first: Graph, last: set[str], before: Imported, step: Step
) -> Iterator[Finding]:
    """Yield a finding for each cast to a narrow format that the passes left out."""
    for name in names:
        origin = before.origins.get(name)
        node = first.nodes.get(origin.original) if origin is not None else None
        if node is None or not last or node.name in last or base_word(node.target) not in CASTS:
            continue
        if node.dtype not in (*NARROW, *EIGHT) or name in step.at:
            continue
        place = Location(node.place.file, node.place.line or None) if node.place.file else None
        message = (
            f"`{node.name}` no longer rounds to {node.dtype}: a pass joined it with the next cast"
        )
        yield Finding(DROPPED_CODE, "warning", message, place or step.location, step.id)


def _lost(region: Region, reading: Reading) -> list[Dropped]:
    """Return the roundings that are gone in a region."""
    names = {_node(name, reading) for name in region.names}
    parts = {
        node.args[0].name
        for node in reading.graph.nodes.values()
        if node.target == "getitem" and node.name in names and isinstance(node.args[0], Ref)
    }
    known = {name for one in reading.after.opaque for name in one.gives}
    known = {_node(name, reading) for name in known}  # no region holds them, and they read all
    inside = names | parts | known
    return [
        one
        for one in reading.dropped
        if (one.name in names or (one.name in known and one.reader in names))
        and (one.reader is None or one.reader in inside)
    ]


def _gone(region: Region, reading: Reading) -> list[Dropped | Merged]:
    """Return the roundings that are gone in a region, by a kernel or by a library call."""
    merged = [one for one in reading.merged if one.name in region.names]
    return [*_lost(region, reading), *merged]


def _key(one: Dropped) -> str:
    return f"{one.name} before {one.reader}"


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


def _heading(region: Region, reading: Reading) -> tuple[str, Location]:
    """Return what became of a region, in one line, and where the user's source states it."""
    lost = _lost(region, reading)
    gone = _gone(region, reading)
    names = list(dict.fromkeys(one.name for one in gone))
    kernels = list(dict.fromkeys(kernel for one in lost for kernel in one.kernels))
    if names:
        title = f"{listed(names)} {verb(names)} no longer rounded"
    elif literals := _literals(region, reading):
        title = f"a number beside {listed(literals)} is no longer rounded first"
    else:
        shown = [n for n in region.results if PART not in n] or list(region.names)
        title = f"{listed(shown)} {verb(shown)} computed in another way"
    if kernels:
        title += f" in {', '.join(kernels[:MOST_NAMES])}"
    place = place_of(region.results, reading.before.origins)
    if not place.file:
        place = next((one.place for one in gone if one.place.file), Place())
    place = place if place.file else place_of(region.names, reading.before.origins)
    return title, _location(reading, place)


def _called(region: Region, model: Imported, chain: Chain | None) -> tuple[str, ...]:
    """Return a note on what calls the lines of a region's results."""
    names = region.results or region.names
    nodes = (model.origins[name].original for name in names if name in model.origins)
    return caller_note(
        (node.partition(PART)[0] or node for node in nodes), {} if chain is None else chain.callers
    )


def _findings(
    step: Step,
    judged: Judged,
    budget: Budget | None,
    region: Region,
    reading: Reading,
    told: set[str],
) -> Iterator[Finding]:
    yield from unmet(step, judged, budget, region.opaque)
    yield from _lost_findings(_lost(region, reading), reading, told, step)
    for merged in reading.merged:
        if merged.name in region.names and merged.name not in told:
            told.add(merged.name)
            message = (
                f"`{merged.name}` is no longer rounded before it is added: `{merged.into}` is "
                f"{merged.operator}, one library call for both"
            )
            location = _location(reading, merged.place)
            yield Finding(DROPPED_CODE, "warning", message, location, step.id)


def _lost_findings(
    lost: Iterable[Dropped], reading: Reading, told: set[str], step: Step
) -> Iterator[Finding]:
    """Yield a finding for each value that is no longer rounded, once for each reader."""
    by_name: dict[str, list[Dropped]] = {}
    for one in lost:
        if _key(one) not in told:
            told.add(_key(one))
            by_name.setdefault(one.name, []).append(one)
    for name, group in by_name.items():
        location = _location(reading, group[0].place)
        yield Finding(DROPPED_CODE, "warning", _sentence(name, group), location, step.id)


def _sentence(name: str, group: Sequence[Dropped]) -> str:
    readers = list(dict.fromkeys(one.reader for one in group if one.reader))
    where = list(dict.fromkeys(kernel for one in group for kernel in one.kernels))
    text = f"`{name}` is no longer rounded to {group[0].format}"
    if readers:
        text += f" before {listed(readers)}"
    if any(one.reader is None for one in group):
        text += ", and is returned so" if readers else " before it is returned"
    if where:
        text += f", in {', '.join(where[:MOST_NAMES])}"
    if any(one.assumed for one in group):
        text += " (assumed: no loop body shows it)"
    return text


def _about(reading: Reading, unread: Iterable[str]) -> Iterator[Finding]:
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
    parts += [*reading.reductions, *reading.notes, *unread]
    yield Finding(ASSUMED_CODE, "note", "; ".join(dict.fromkeys(parts)), shown)


def _location(reading: Reading, place: Place) -> Location:
    if place.file:
        return Location(place.file, place.line or None)
    return Location(reading.folder.shown)
