"""Say which of Inductor's passes changes the verdict on a region first.

The graph that a pass left is put beside the graph before all of them, and judged in regions as what
the kernels do is. A pass that only gives values other names, or computes the same bits in another
way, changes no verdict.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from lastbit.change import Change
from lastbit.errors import InputError
from lastbit.importers.imported import Imported
from lastbit.importers.inductor.building import program_of, result_names
from lastbit.importers.inductor.fx import Graph, read_graph
from lastbit.importers.inductor.passes import Stage
from lastbit.importers.inductor.pieces import Group, groups_of
from lastbit.importers.onnx.comparing import aligned
from lastbit.importers.onnx.regions import Opener, Region
from lastbit.importers.verdicts import Verdicts

KERNELS = "the kernels: fusion and code generation"
UNCHANGED = f"first changed by {KERNELS}; Inductor's passes over the graph change nothing here"
ALL_PASSES = "Inductor's passes over the graph"
WHICH = "; the folder does not say which of them: `check FILE:NAME --compile` does"


@dataclass(frozen=True, slots=True)
class Judgement:
    """What the graph that a pass left is, beside the graph before all passes.

    Attributes:
        name: of the pass, as a report names it.
        changes: by value the kind of change of the region that it is in.
        why: the reason where the graph cannot be put beside the first; else empty.
    """

    name: str
    changes: Mapping[str, Change]
    why: str = ""


def regions_of(before: Imported, after: Imported, verdicts: Verdicts) -> list[Region]:
    """Return the regions in which two aligned models differ, in pieces where these say as much.

    A pass may give a name of the graph before to another value. Then a piece that ends there is
    another function, or of no verdict, and only the whole region says what becomes of the results.
    """
    opener = Opener(before, after, lambda region: verdicts.of(region).change)
    return [opener.of(one) for group in groups_of(before, after) for one in _told(group, verdicts)]


def _told(group: Group, verdicts: Verdicts) -> list[Region]:
    if not group.pieces:
        return group.regions
    worst = max(verdicts.of(piece).change for piece in group.pieces)
    if worst < Change.MATH:
        return group.pieces
    whole = max(verdicts.of(region).change for region in group.regions)
    return group.regions if whole < worst else group.pieces


def models_of(
    first: Graph, stages: Iterable[Stage], shown: str
) -> Iterator[tuple[str, Imported | InputError]]:
    """Yield for each pass its name, and the program that it left or why that cannot be read.

    Args:
        first: the graph before the passes.
        stages: what the passes left.
        shown: as a report names the graph.
    """
    for stage in stages:
        try:
            graph = read_graph(stage.text, shown)
            yield stage.name, program_of(graph, shown, None, result_names(first, graph, shown))
        except InputError as error:
            yield stage.name, error


def judged_stages(
    before: Imported,
    models: Iterable[tuple[str, Imported | InputError]],
    verdicts: Verdicts,
    align: Callable[[Imported, Imported], Imported] = aligned,
) -> list[Judgement]:
    """Judge the graph after each pass against the one before all of them.

    Args:
        before: the graph before the passes.
        models: what `models_of` gives.
        verdicts: judges regions.
        align: gives the values of the second model the names of the first.
    """
    found = []
    for name, model in models:
        try:
            if isinstance(model, InputError):
                raise model
            changes: dict[str, Change] = {}
            for region in regions_of(before, align(before, model), verdicts):
                kind = verdicts.of(region).change
                for value in region.names:
                    changes[value] = max(kind, changes.get(value, kind))
            found.append(Judgement(name, changes))
        except InputError as error:
            found.append(Judgement(name, {}, str(error).partition("\n")[0]))
    return found


def first_change(judged: Sequence[Judgement], names: Iterable[str], last: Change) -> str:
    """Return a sentence on what changes the verdict on some values, the first pass first.

    Args:
        judged: the passes, in order.
        names: the values.
        last: the verdict on what the kernels do with them.
    """
    wanted = set(names)
    now, texts = Change.BITWISE, []
    for one in judged:
        if one.why:
            continue
        kinds = [kind for name, kind in one.changes.items() if name in wanted]
        kind = max(kinds, default=Change.BITWISE)
        if kind != now:
            texts.append(f"{one.name} ({kind})")
            now = kind
    if not texts:
        return UNCHANGED
    if last != now:
        texts.append(f"{KERNELS} ({last})")
    more = f", then by {', then by '.join(texts[1:])}" if texts[1:] else ""
    which = WHICH if judged[0].name == ALL_PASSES else ""
    return f"first changed by {texts[0]}{more}{which}"


def unread(judged: Iterable[Judgement]) -> Iterator[str]:
    """Yield a sentence for each pass whose graph could not be compared."""
    for one in judged:
        if one.why:
            yield f"the graph after {one.name} was not compared: {one.why}"
