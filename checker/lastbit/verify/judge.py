"""Judge the transforms of a plan, each once, several at a time where there are several cores."""

from __future__ import annotations

import multiprocessing
import os
import traceback
from collections.abc import Iterator, Sequence
from dataclasses import replace

from lastbit.change import Change
from lastbit.graph import Input, Node, substitute
from lastbit.plan_model import Plan, Transform
from lastbit.rule import RejectedError, Site
from lastbit.schedule import Schedule, bind, symbols
from lastbit.verify.bench import Bench
from lastbit.verify.decide import Decider, Judged, Task
from lastbit.verify.promises import Varying
from lastbit.verify.region import Region, region_of
from lastbit.verify.rename import rename_entry, rename_text, rename_witness

MOST_VALUES = 2048  # sizes of a range at which a schedule is evaluated
FEW_TASKS = 4  # tasks that are not worth another process

Key = tuple[object, ...]


class Judge:
    """Judges the transforms of one plan, in order.

    Args:
        plan: the plan.
        seed: selects every draw.
        processes: processes at work; None: one for each core.
    """

    def __init__(self, plan: Plan, seed: int = 0, processes: int | None = None) -> None:
        self.plan, self.seed, self.processes = plan, seed, processes
        self.bench = Bench(plan)
        self._varying = self._text_varying()

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
        verdicts = self._decided(tasks)
        known: dict[int, tuple[Judged, Region]] = {}
        for transform, item in zip(self.plan.transforms, surveyed, strict=True):
            if isinstance(item, Judged):
                yield transform, item
                continue
            origin = origins[item.number]
            if origin == item.number:
                known[origin] = next(verdicts), item.region
                yield transform, known[origin][0]
            else:
                yield transform, _again(origin, *known[origin], item)

    def _text_varying(self) -> dict[str, tuple[Varying, ...]]:
        """Return by name the schedules of the program that depend on a size."""
        out = {}
        for st in self.plan.program.statements:
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
        variants, varying = bench.variants(transform)
        if region is None:
            note = "nothing that the program returns depends on it"
            return Judged(title, Change.BITWISE, notes=(note,))
        before = tuple(v for name in region.before.values for v in self._varying.get(name, ()))
        after = tuple(v for name in region.after.values for v in self._varying.get(name, ()))
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
        if not varying:
            return transform.rule.title(site)
        names = {parameter.parameter for parameter in varying}
        largest = max(variants, key=lambda given: sum(int(given[name]) for name in names))
        title = transform.rule.title(replace(site, parameters=largest))
        return f"{title} ({'; '.join(map(str, varying))})"

    def _key(self, task: Task) -> Key:
        """Return a key that two tasks share if only the names of their values differ."""
        region = task.region
        new: dict[bytes, Node] = {
            node.key: Input(f"input {i}", node.format, shape=node.shape)
            for i, node in enumerate(region.inputs)
        }
        roots = [*region.before.results, *region.after.results]
        nodes = substitute(roots, new)
        drawn = tuple(repr(self.plan.inputs.get(node.name)) for node in region.inputs)
        rule = task.transform.rule.code
        facts = repr((task.variants, task.varying))
        return (*(nodes[root.key].key for root in roots), rule, facts, drawn)

    def _decided(self, tasks: Sequence[Task]) -> Iterator[Judged]:
        """Yield the verdict on each task, in order."""
        workers = min(self.processes or len(os.sched_getaffinity(0)), len(tasks))
        decider = Decider(self.bench, self.seed)
        if workers < 2 or len(tasks) < FEW_TASKS or not _can_fork():
            yield from map(decider.decide, tasks)
            return
        _forked[:] = [decider, tasks]
        with multiprocessing.get_context("fork").Pool(workers) as pool:
            yield from pool.imap(_decide_forked, range(len(tasks)))


_forked: list[object] = []


def _decide_forked(number: int) -> Judged:
    """Decide a task that this process inherited."""
    decider, tasks = _forked
    assert isinstance(decider, Decider)
    assert isinstance(tasks, Sequence)
    try:
        return decider.decide(tasks[number])
    except Exception:
        # Not every exception survives the way back; its text does.
        raise RuntimeError(traceback.format_exc()) from None


def _can_fork() -> bool:
    return (
        "fork" in multiprocessing.get_all_start_methods() and not multiprocessing.parent_process()
    )


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
