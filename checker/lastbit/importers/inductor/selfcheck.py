"""Trust no verdict that contradicts what was read of the kernels, or what a run shows.

A rounding that a kernel drops has to be in the program that is judged, and a difference that a run
shows has to have a region, or a cause that no file tells. Where that is not so, this package has
misread something: the verdict is `unknown`, never a pass.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Any

from lastbit.change import Change
from lastbit.importers.imported import Imported
from lastbit.importers.inductor.matching import NARROW
from lastbit.importers.inductor.meanings import GATHERS, base_word
from lastbit.importers.inductor.predicting import made_differently
from lastbit.importers.inductor.reading import Dropped, Merged, Reading
from lastbit.importers.renaming import words_of
from lastbit.importers.verdicts import listed, verb
from lastbit.result import Step
from lastbit.statement import Statement
from lastbit.verify.decide import Judged

PART = "__"  # in names of statements inside a node

Differs = Callable[[Any, Any], int]


def checked(judged: Judged, gone: Iterable[Dropped | Merged], reading: Reading) -> Judged:
    """Return a verdict, or `unknown` where it denies a rounding that was seen to be gone.

    Args:
        judged: the verdict on a region.
        gone: the roundings that kernels do not do there.
        reading: the graph.
    """
    if judged.change != Change.BITWISE:
        return judged
    gone = list(gone)
    names = list(dict.fromkeys(one.name for one in gone if not is_stated(one, reading)))
    if not names:
        return _beyond(judged, [one.name for one in gone], reading)
    why = f"{listed(names)} {verb(names)} no longer rounded, and the judged program rounds there"
    return replace(judged, change=Change.UNKNOWN, notes=(*judged.notes, why))


def _beyond(judged: Judged, names: Iterable[str], reading: Reading) -> Judged:
    """Return the verdict on a region that reads what an opaque operator gives unrounded.

    It was judged on equal inputs, and they are not: one side's is rounded. What only chooses
    elements is rounded before or after alike, so the same function of it loses a rounding. Of
    other operators nobody knows what they make of values that were not rounded.
    """
    given = {name for one in reading.after.opaque for name in one.gives}
    table = {st.name: st for st in reading.after.program.statements if st.name in given}
    for name in dict.fromkeys(names):
        if not any(map(_is_wide, _of_node(name, reading.after, table))):
            continue
        chooses = base_word(reading.graph.nodes[name].target) in GATHERS
        kind = Change.ROUNDING if chooses else Change.UNKNOWN
        why = f"`{name}`, known by its name only, is read without its rounding"
        return replace(judged, change=kind, notes=(*judged.notes, why))
    return judged


def is_stated(one: Dropped | Merged, reading: Reading) -> bool:
    """Return whether the program of the kernels reads a value as wide as they do."""
    if isinstance(one, Merged):
        return False  # an operator of its own: the same bits would be another reason's
    table = {st.name: st for st in reading.after.program.statements}
    if one.reader is None:
        return any(_is_wide(st) for st in _of_node(one.name, reading.after, table))
    for st in _of_node(one.reader, reading.after, table):
        for read in _read_by(st, reading.after):
            rounded = any(f"round({read}, {fmt})" in (st.expr or "") for fmt in NARROW)
            if read in table and _is_wide(table[read]) and not rounded:
                return True
    return False


def _of_node(name: str, model: Imported, table: dict[str, Statement]) -> Iterator[Statement]:
    """Yield the statements of a node."""
    for value, origin in model.origins.items():
        if value in table and origin.original.partition(PART)[0] == name:
            yield table[value]


def _read_by(st: Statement, model: Imported) -> Iterable[str]:
    """Return what a statement reads; of an opaque operator what that reads."""
    if st.expr is not None:
        return words_of(st.expr)
    return (read for one in model.opaque if st.name in one.gives for read in one.reads)


def _is_wide(st: Statement) -> bool:
    return st.rounding is None or st.rounding.format.short not in NARROW


def differing(
    pairs: Sequence[tuple[Any, Any]],
    readings: Sequence[Reading],
    steps: Sequence[Step],
    differs: Differs,
) -> tuple[list[int], list[str]]:
    """Return the results that differ although no verdict says so, and what may be the reason.

    No file says in which order a sum adds, so graphs are compared as if all added alike, and a
    function of the reals is the same one on both sides.

    Args:
        pairs: the results of both runs.
        readings: the graphs.
        steps: the verdicts.
        differs: counts the elements that differ.
    """
    found = [number for number, (a, b) in enumerate(pairs) if differs(a, b)]
    told = {n for step in steps if step.domain or step.change != Change.BITWISE for n in step.at}
    if not found or not readings:
        return [], []
    if told and (len(readings) > 1 or len(readings[0].first.results) != len(pairs)):
        return [], []  # which result hangs on which region, nobody can say here
    if told:
        if not told <= {st.name for st in readings[0].before.program.statements}:
            return [], []  # a pass over the graph before this one changed something
        cones = _cones(readings[0])
        found = [n for n in found if cones[n].isdisjoint(told)]
        only: Collection[str] | None = {name for n in found for name in cones[n]}
    else:
        only = None
    if not found:
        return [], []
    sums, functions = made_differently(readings, only)
    causes = []
    if sums:
        causes.append(
            f"the order in which {listed(sums)} {verb(sums)} added up, which no file says"
        )
    if functions:
        causes.append(f"how {listed(functions)} {verb(functions)} computed")
    return found, causes


def needed_by_results(reading: Reading) -> set[str]:
    """Return the values of the program before on which a result hangs."""
    return {name for cone in _cones(reading) for name in cone}


def _cones(reading: Reading) -> list[set[str]]:
    """Return for each result the names of the values that it is computed from, and its own."""
    model = reading.before
    reads = {st.name: set(words_of(st.expr or "")) for st in model.program.statements}
    for one in model.opaque:
        for name in one.gives:
            reads.setdefault(name, set()).update(one.reads)
    names = {origin.original: name for name, origin in model.origins.items()}
    found = []
    for result in reading.first.results:
        seen: set[str] = set()
        stack = [names.get(result, result)]
        while stack:
            name = stack.pop()
            if name not in seen:
                seen.add(name)
                stack += reads.get(name, ())
        found.append(seen)
    return found
