"""Judge the transforms of a plan, each once, several at a time where there are several cores."""

from __future__ import annotations

import os
import traceback
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

from lastbit.change import Change
from lastbit.forking import can_fork, forked_pool
from lastbit.graph import Input, Node, substitute
from lastbit.plan_model import Plan, Transform
from lastbit.rule import RejectedError, Site
from lastbit.schedule import Schedule, bind, symbols
from lastbit.text import Program
from lastbit.verify.bench import Bench
from lastbit.verify.compose import Composer, Reach, WholeDecider, groups
from lastbit.verify.decide import Decider, Judged, Task
from lastbit.verify.promises import Varying
from lastbit.verify.region import Region, region_of, why_no_region
from lastbit.verify.rename import rename_entry, rename_text, rename_witness
from lastbit.verify.wholes import Whole, applied_in, bounded, by_law, whole

MOST_VALUES = 2048  # sizes of a range at which a schedule is evaluated
FEW_TASKS = 4  # tasks that are not worth another process

Key = tuple[object, ...]
Work = Callable[[Callable[[Any], Judged], Iterable[Any]], Iterator[Judged]]


class Judge:
    """Judges the transforms of one plan, in order, and those that meet as one change.

    `wholes` holds the latter once all transforms are judged.

    Args:
        plan: the plan.
        seed: selects every draw.
        processes: processes at work; None: one for each core.
    """

    def __init__(self, plan: Plan, seed: int = 0, processes: int | None = None) -> None:
        self.plan, self.seed, self.processes = plan, seed, processes
        self.bench = Bench(plan)
        self.wholes: tuple[Whole, ...] = ()
        self._written = self._text_varying(plan.program)
        self._varying = dict(self._written)
        # Of two graphs each has its own schedules; else the program's, as transforms change them.
        self._after = self._varying if plan.after is None else self._text_varying(plan.after)
        self._reaches: dict[int, Reach] = {}

    def run(self) -> Iterator[tuple[Transform, Judged]]:
        """Yield each transform with its verdict."""
        surveyed = [self._survey(n, t) for n, t in enumerate(self.plan.transforms)]
        first: dict[Key, int] = {}
        origins: dict[int, int] = {}  # of each task, the first with an equal region
        tasks = []
        for item in surveyed:
            if isinstance(item, Task):
                origins[item.number] = first.setdefault(self._key(item), item.number)
                if origins[item.number] == item.number:
                    tasks.append(item)
        decider = Decider(self.bench, self.seed)
        composer = Composer(self.bench, (self._written, self._varying))
        wholes = WholeDecider(composer, self.seed)
        steps: dict[int, Judged] = {}
        known: dict[int, Region] = {}
        with self._workers(tasks, decider.decide, wholes.decide_whole) as work:
            verdicts = work(decider.decide, tasks)
            for number, (transform, item) in enumerate(
                zip(self.plan.transforms, surveyed, strict=True)
            ):
                if isinstance(item, Judged):
                    steps[number] = item
                elif (origin := origins[number]) == number:
                    steps[number], known[number] = next(verdicts), item.region
                else:
                    steps[number] = _again(origin, steps[origin], known[origin], item)
                yield transform, steps[number]
            self.wholes = tuple(
                self._whole(composer, steps, lambda items: work(wholes.decide_whole, items))
            )

    def _whole(
        self,
        composer: Composer,
        steps: dict[int, Judged],
        decided: Callable[[Sequence[tuple[int, ...]]], Iterator[Judged]],
    ) -> Iterator[Whole]:
        """Yield the verdicts on transforms that meet; equal regions are judged once."""
        plan = self.plan
        found: list[tuple[tuple[int, ...], Whole | Task | str]] = []
        for numbers in [] if plan.after is not None else groups(self._reaches):
            applied = applied_in(plan, numbers, steps)
            found.append((numbers, by_law(numbers, steps) or composer.task(applied)))
        first: dict[Key, int] = {}
        origins = {
            place: first.setdefault(self._key(item, applied_in(plan, numbers, steps)), place)
            for place, (numbers, item) in enumerate(found)
            if isinstance(item, Task)
        }
        alone = [n for place, (n, _) in enumerate(found) if origins.get(place) == place]
        verdicts = decided([applied_in(plan, numbers, steps) for numbers in alone])
        known: dict[int, tuple[Judged, Region]] = {}
        for place, (numbers, item) in enumerate(found):
            if isinstance(item, Whole):
                yield item
                continue
            if isinstance(item, str):
                judged = bounded(numbers, steps, item)
            elif (origin := origins[place]) == place:
                known[place] = next(verdicts), item.region
                judged = known[place][0]
            else:
                judged = _again(origin, *known[origin], item)
            lasting = numbers if isinstance(item, str) else composer.lasting(numbers)
            yield whole(plan, numbers, steps, judged, lasting)

    def _text_varying(self, program: Program) -> dict[str, tuple[Varying, ...]]:
        """Return by name the schedules of the program that depend on a size."""
        out = {}
        for st in program.statements:
            if st.schedule is None:
                continue
            found = []
            for symbol in sorted(symbols(st.schedule)):
                span = self.plan.symbols[symbol]
                if not span.fixed:
                    count = self._values(st.schedule, symbol)
                    found.append(Varying(str(st.schedule), symbol, count, span.low, span.high))
            out[st.name] = tuple(found)
        return out

    def _values(self, schedule: Schedule, symbol: str) -> int:
        """Return the number of different schedules over the range of a symbol."""
        span, sizes = self.plan.symbols[symbol], self.plan.sizes()
        step = max(1, (span.high - span.low) // MOST_VALUES)
        tried = {*range(span.low, span.high + 1, step), span.high}
        return len({str(bind(schedule, {**sizes, symbol: size})) for size in tried})

    def _survey(self, number: int, transform: Transform) -> Task | Judged:
        """Apply a transform at the plan's sizes; learn how it cuts the axes."""
        bench = self.bench
        program = bench.before(number, bench.true)
        site = bench.site(transform, bench.true, program)
        try:
            edits = transform.rule.apply(site)
        except RejectedError as error:
            return Judged(transform.rule.summary, Change.UNKNOWN, rejected=str(error))
        title = self._title(transform, site)
        region = region_of(program, program.edited(edits), edits)
        axes = bench.axes_of(transform, site, edits)
        if region is not None and not transform.branch:
            self._reaches[number] = Reach.of(program, edits)
        variants, varying = bench.variants(transform)
        if region is None:
            note = why_no_region(program, edits)
            return Judged(title, Change.BITWISE, notes=(note,))
        before = tuple(v for name in region.before.values for v in self._varying.get(name, ()))
        after = tuple(v for name in region.after.values for v in self._after.get(name, ()))
        if not transform.branch and not transform.rule.placement:
            for name in edits:
                self._varying[name] = (*self._varying.get(name, ()), *varying)
        pair = before, (*after, *varying)
        return Task(number, transform, title, region, axes, variants, pair)

    def _title(self, transform: Transform, site: Site) -> str:
        """Return the rule's sentence; of a parameter that varies, the largest value speaks."""
        if transform.rule.title is None:
            return transform.rule.summary
        variants, varying = self.bench.variants(transform)
        varying = [parameter for parameter in varying if not parameter.cause]
        if not varying:
            return transform.rule.title(site)
        names = {parameter.parameter for parameter in varying}
        largest = max(variants, key=lambda given: sum(int(given[name]) for name in names))
        title = transform.rule.title(replace(site, parameters=largest))
        return f"{title} ({'; '.join(map(str, varying))})"

    def _key(self, task: Task, steps: Sequence[int] = ()) -> Key:
        """Return a key that two tasks share if only the names of their values differ.

        Args:
            task: the task.
            steps: the places of its transforms, where they are several.
        """
        region = task.region
        new: dict[bytes, Node] = {
            node.key: Input(f"input {i}", node.format, shape=node.shape)
            for i, node in enumerate(region.inputs)
        }
        roots = [*region.before.results, *region.after.results]
        nodes = substitute(roots, new)
        drawn = tuple(repr(self.plan.inputs.get(node.name)) for node in region.inputs)
        rule = tuple(self.plan.transforms[n].rule.code for n in steps or (task.number,))
        facts = repr((task.variants, task.varying))
        return (*(nodes[root.key].key for root in roots), rule, facts, drawn)

    @contextmanager
    def _workers(
        self, tasks: Sequence[Task], *functions: Callable[[Any], Judged]
    ) -> Iterator[Work]:
        """Give what maps a function over items in order, on several cores where that pays."""
        workers = min(self.processes or len(os.sched_getaffinity(0)), len(tasks))
        if workers < 2 or len(tasks) < FEW_TASKS or not can_fork():
            yield map
            return
        _forked[:] = [tasks, *functions]
        with forked_pool(workers) as pool:

            def spread(function: Callable[[Any], Judged], items: Iterable[Any]) -> Iterator[Judged]:
                which = functions.index(function)
                known = range(len(tasks)) if items is tasks else items
                return pool.imap(_call_forked, [(which, item) for item in known])

            yield spread


_forked: list[Any] = []


def _call_forked(call: tuple[int, Any]) -> Judged:
    """Decide what this process inherited: a task by its number, or steps by their places."""
    which, item = call
    tasks, *functions = _forked
    try:
        judged: Judged = functions[which](tasks[item] if isinstance(item, int) else item)
    except Exception:
        # Not every exception survives the way back; its text does.
        raise RuntimeError(traceback.format_exc()) from None
    return judged


def _again(first: int, judged: Judged, known: Region, task: Task) -> Judged:
    """Return the verdict of an equal region, in this region's names."""
    names: dict[str, str] = {}
    for old, new in ((known.before, task.region.before), (known.after, task.region.after)):
        names |= dict(zip(old.values, new.values, strict=True))
    drift = judged.drift
    if drift is not None:
        drift = replace(drift, output=names.get(str(drift.output)))
    return replace(
        judged,
        title=task.title,
        outputs=task.region.outputs,
        domain=tuple(rename_entry(entry, names) for entry in judged.domain),
        promises={
            name: replace(promise, cause=rename_text(promise.cause, names))
            for name, promise in judged.promises.items()
        },
        drift=drift,
        witness=None if judged.witness is None else rename_witness(judged.witness, names),
        same_as=first,
    )
