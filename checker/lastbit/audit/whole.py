"""The target itself, as it is and compiled: other batches, and equal runs."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any

from lastbit.audit.batch import NO_RESULT, first_rows, with_order
from lastbit.audit.bits import Different
from lastbit.audit.case import Layout
from lastbit.audit.filling import Program
from lastbit.audit.input_axes import axes_by_shape
from lastbit.audit.judging import BATCH, OTHERS, POSITION, REPEATS, label_of
from lastbit.audit.leaves import leaves
from lastbit.audit.records import CaseRecord, Trial, Whole, location_of
from lastbit.audit.taking import Axis, selected
from lastbit.audit.trials import MOST_NAMED, Asked, Clock
from lastbit.errors import InputError
from lastbit.report.words import plural

FOLLOWS = "a number or shape in the program follows the batch"
ROW_CODES = {BATCH, OTHERS, POSITION, REPEATS}
NO_ROWS = "no result of the target has an axis that counts rows"


def shapes(returned: Any) -> list[tuple[int, ...]]:
    """Return the shapes of the tensors that a target returns."""
    return [tuple(one.shape) for one in tensors_of(returned)]


def tensors_of(returned: Any) -> list[Any]:
    """Return the tensors that a target returns, in order."""
    return [one for one in leaves(returned) if hasattr(one, "dim")]


def tried_whole(
    program: Program,
    form: str,
    axes: list[Axis | None],
    asked: Asked,
    clock: Clock,
    call: Callable[..., Any] | None = None,
) -> Whole:
    """Run a target at several batch sizes and several times.

    Args:
        program: the target.
        form: `eager` or `compiled`.
        axes: of its results that count rows.
        asked: sizes and repeats.
        clock: ends it.
        call: what is called in place of the target.
    """
    trials: list[Trial] = []
    gaps: list[str] = []
    different = Different()
    numbers: list[int] = []
    for run in range(asked.repeats):
        if run >= 2 and not clock.more():
            gaps.append(f"{run} of {asked.repeats} equal runs were made in the time")
            break
        numbers.append(different.number(tensors_of(program.run(asked.sizes[-1], call))))
    runs = tuple(range(1, len(numbers) + 1))
    trials.append(Trial("repeats", runs, tuple(numbers), len(different.kept), different.distance()))
    if not any(axes):
        gaps.append(NO_ROWS)
    elif len(different.kept) == 1:
        trials += _batches(program, axes, asked, clock, call, gaps)
    return Whole(form, tuple(trials), gaps=tuple(gaps))


def _batches(
    program: Program,
    axes: list[Axis | None],
    asked: Asked,
    clock: Clock,
    call: Callable[..., Any] | None,
    gaps: list[str],
) -> Iterator[Trial]:
    different = Different()
    numbers: list[int] = []
    ran: list[int] = []
    sizes = (asked.sizes[-1], *asked.sizes[:-1])
    for size in sizes:
        if len(numbers) >= 2 and not clock.more():
            gaps.append(f"{len(ran)} of {len(sizes)} batch sizes were run in the time")
            break
        try:
            returned = tensors_of(program.run(size, call))
        except InputError as error:
            gaps.append(f"not run with {plural(size, 'row')}: {error}")
            continue  # the other sizes are asked for as well
        ran.append(size)
        rows = [
            selected(one, axis, [0], size)
            for one, axis in zip(returned, axes, strict=False)
            if axis is not None
        ]
        numbers.append(different.number(rows))
    pairs = sorted(zip(ran, numbers, strict=True))
    yield Trial(
        "batch", tuple(size for size, _ in pairs), tuple(n for _, n in pairs),
        len(different.kept), different.distance(),
    )  # fmt: skip


def with_reason(one: Whole, cases: Sequence[CaseRecord]) -> Whole:
    """Return what was found for a target, with a sentence where no operator explains it.

    Args:
        one: what was found.
        cases: its operators, all of them.
    """
    differing = any(trial.kind == "batch" and trial.differs for trial in one.trials)
    if not differing or any({*case.codes} & ROW_CODES for case in cases):
        return one
    open_ = [label_of(case) for case in cases if not case.decided]
    mixing = [
        f"{label_of(case)} at {location_of(case, 'a place that is not known')}"
        for case in cases
        if any(note.endswith(NO_RESULT) for note in case.notes)
    ]
    if open_:
        text = f"an operator that is not decided ({_few(open_)}) does it, or {FOLLOWS}"
    else:
        text = f"no operator does it by itself: {FOLLOWS}"
    if mixing:
        text += f"; {_few(mixing)} {'compute' if len(mixing) > 1 else 'computes'} from all rows"
    return replace(one, notes=(*one.notes, text))


def _few(names: Sequence[str]) -> str:
    known = list(dict.fromkeys(names))
    more = f" and {len(known) - MOST_NAMED} more" if len(known) > MOST_NAMED else ""
    return f"{', '.join(known[:MOST_NAMED])}{more}"


def result_axes(large: tuple[int, Any], small: tuple[int, Any]) -> list[Axis | None]:
    """Return the axes of results that count rows, from the rows and the results of two runs."""
    many, few = tensors_of(large[1]), tensors_of(small[1])
    if len(many) != len(few):
        return []
    axes = axes_by_shape(shapes(small[1]), shapes(large[1]), (small[0], large[0]))
    found = Layout((), tuple(axes))
    ordered = with_order(found, first_rows(found, many, large[0]), first_rows(found, few, small[0]))
    return list(ordered.results)
