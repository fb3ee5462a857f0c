"""Decide what one transform does: kind of change, domain, promises, drift and a witness."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

from lastbit.change import Change
from lastbit.definitions import Definitions
from lastbit.errors import InputError, LastbitError
from lastbit.graph import Node, Reduce, topological
from lastbit.interpret.policy import Policy
from lastbit.plan_model import Plan
from lastbit.records import Promise
from lastbit.rule import RejectedError, Value
from lastbit.verify.bench import Bench
from lastbit.verify.classify import CHANGE_OF, Case, Verdict, classify, within
from lastbit.verify.counted import Judging
from lastbit.verify.domain import misbehaviours
from lastbit.verify.judged import Judged, Task
from lastbit.verify.promises import Varying, promises_of
from lastbit.verify.recording import entry_of, evidence_of, witness_of
from lastbit.verify.region import Region, region_of
from lastbit.verify.sampling import sampled_drift
from lastbit.verify.sizing import Instance, instances, witness_instances
from lastbit.verify.trees import same_trees
from lastbit.verify.witness import EFFORT, LARGEST, cost_of

__all__ = ["MOST_ELEMENTS", "Decider", "Judged", "Task"]

MOST_VARIANTS = 8  # parameter values over a symbol's range that are judged
MOST_FOLLOWED = 3  # steps by which a region is followed further into the program
MOST_NODES = 4000  # nodes of a region that is judged at a true size
MOST_ELEMENTS = 1 << 22  # elements of a region that is judged in the field


class Decider:
    """Decides single transforms of a plan.

    Args:
        bench: the plan's program at any sizes.
        seed: selects every draw.
        tick: called while evaluating; may raise to stop.
        drift: whether drift is measured.
    """

    effort = EFFORT  # elements evaluated in each search for a witness
    largest = LARGEST  # elements of one run of a region in which a witness is sought
    special_sizes = 3  # sizes at which special inputs are tried
    most_special = 1 << 13  # elements of a region that is put to special inputs

    def __init__(
        self,
        bench: Bench,
        seed: int = 0,
        tick: Callable[[], None] | None = None,
        *,
        drift: bool = True,
    ) -> None:
        self.bench, self.seed, self.tick, self.drift = bench, seed, tick, drift
        self.small: list[Instance] = []
        self.witnesses: list[Instance] = []
        self._regions_of: dict[tuple[object, ...], Region | None] = {}

    @property
    def plan(self) -> Plan:
        """Return the plan."""
        return self.bench.plan

    def decide(self, task: Task) -> Judged:
        """Return what a transform does; what cannot be evaluated is unknown, and says why."""
        try:
            return self._decide(task)
        except LastbitError as error:
            return Judged(task.title, Change.UNKNOWN, task.region.outputs, notes=(str(error),))

    def _decide(self, task: Task) -> Judged:
        number, whole, variants = task.number, task.region, task.variants
        self._regions_of = {(True, *self.bench.true.sizes.values(), "None", 0): whole}
        worst: Verdict | None = None
        chosen = _spread(variants, MOST_VARIANTS)
        extend = 0
        given: Mapping[str, Value] | None = None  # the parameters that speak for the step
        for parameters in chosen:
            verdict, reach = self._classify(task, parameters)
            if worst is None or verdict.change > worst.change:
                worst, extend = verdict, reach
                given = None if parameters == variants[0] else parameters
        assert worst is not None
        self._choose_sizes(task, extend)
        notes = []
        if len(chosen) < len(variants):
            notes.append(f"judged for {len(chosen)} of {len(variants)} parameter values")
        small = self._region(number, self.small[0], given, extend)
        domain = misbehaviours(
            self._regions(number, self.witnesses[: self.special_sizes], given, extend),
            worst.change,
        )
        drift = None
        if self.drift and worst.change != Change.BITWISE:
            drift, note = sampled_drift(
                self.bench,
                self._region(number, self.bench.true, given, extend) or whole,
                lambda instance: self._region(number, instance, given, extend),
                self.seed,
            )
            notes += [note] if note else []
        true = self._region(number, self.bench.true, given, extend) or whole
        return Judged(
            task.title,
            worst.change,
            true.outputs,
            tuple(entry_of(self.plan, m) for m in domain),
            self._promises(small, task.varying),
            drift,
            None if worst.witness is None else witness_of(self.plan, worst.witness, worst.change),
            (evidence_of(worst),),
            tuple(notes),
        )

    def within(self, task: Task, change: Change) -> int | None:
        """Return where the field alone shows that a transform changes no more than `change`.

        No witness is sought, so this is quick; it is for a transform with one set of parameters.

        Returns:
            how many steps the region is followed for it; None where the field does not show it.
        """
        self._regions_of = {}
        policy = next((p for p, kind in CHANGE_OF.items() if kind == change), None)
        for extend in range(MOST_FOLLOWED + 1):
            self._choose_sizes(task, extend)
            cases = self._cases(task.number, task.variants[0], extend)
            if policy is None or within(cases, policy, self.seed):
                return extend
            if not cases or (policy != Policy.REAL and within(cases, Policy.REAL, self.seed)):
                return None
        return None

    def at_most(self, task: Task, change: Change) -> Judged | None:
        """Return domain and promises where the change is `within` a kind; else None."""
        extend = self.within(task, change)
        if extend is None:
            return None
        number, given = task.number, task.variants[0]
        small = self._region(number, self.small[0], given, extend)
        regions = self._regions(number, self.witnesses[:2], given, extend)
        domain = tuple(entry_of(self.plan, m) for m in misbehaviours(regions, change))
        promises = self._promises(small, task.varying)
        return Judged(task.title, change, task.region.outputs, domain, promises)

    def _region(
        self,
        number: int,
        instance: Instance,
        parameters: Mapping[str, Value] | None,
        extend: int = 0,
    ) -> Region | None:
        """Return the region of a transform at some sizes; None where it does not apply there."""
        key = (instance.purpose == "true", *instance.sizes.values(), repr(parameters), extend)
        if key not in self._regions_of:
            self._regions_of[key] = self._new_region(number, instance, parameters, extend)
        return self._regions_of[key]

    def _new_region(
        self,
        number: int,
        instance: Instance,
        parameters: Mapping[str, Value] | None,
        extend: int,
    ) -> Region | None:
        try:
            old, new, changed = self._programs(number, instance, parameters)
            return region_of(old, new, changed, extend)
        except (RejectedError, InputError):
            return None

    def _programs(
        self, number: int, instance: Instance, parameters: Mapping[str, Value] | None
    ) -> tuple[Definitions, Definitions, Iterable[str]]:
        """Return the definitions before and after a transform, and the names that it edits."""
        old = self.bench.before(number, instance)
        edits = self.bench.edits(number, instance, old, parameters)
        return old, old.edited(edits), edits

    def _regions(
        self,
        number: int,
        sizes: list[Instance],
        parameters: Mapping[str, Value] | None,
        extend: int,
    ) -> Iterator[Region]:
        for instance in sizes:
            region = self._region(number, instance, parameters, extend)
            if region is not None and cost_of(region) <= self.most_special:
                yield region

    def _choose_sizes(self, task: Task, extend: int) -> None:
        """Choose the sizes for a region: only what it reduces, or the rule cuts, is long."""
        whole = task.region
        region = self._region(task.number, self.bench.true, None, extend) if extend else whole
        lengths = {n.length for n in _nodes(region or whole) if isinstance(n, Reduce)}
        part = lengths - {axis.true for axis in task.axes.values()}
        if part:  # a sum along a part of an axis, any longer one, or along several axes at once
            sizes = {axis.true for axis in task.axes.values() if axis.true > 1}
            lengths |= {n for n in sizes if n > min(part) or any(p % n == 0 for p in part)}
        axes = {name: axis.within(lengths) for name, axis in task.axes.items()}
        self.small = instances(axes, self.bench.literals)
        self.witnesses = witness_instances(axes)

    def _classify(self, task: Task, parameters: Mapping[str, Value]) -> tuple[Verdict, int]:
        """Classify a transform; follow a change of the function until it is none, if it is none.

        A scale that is taken elsewhere changes the codes and itself, but not their product.
        """
        number, claim = task.number, task.transform.rule.claim
        first: Verdict | None = None
        for extend in range(MOST_FOLLOWED + 1):
            self._choose_sizes(task, extend)
            cases = self._cases(number, parameters, extend)
            if not cases:
                break
            if extend == 0 and self._same_trees(task, parameters, cases):
                at = (*(case.sizes for case in cases), self.bench.true.sizes)
                return Verdict(Change.BITWISE, "law", at, 0, None, "equal trees"), 0
            verdict = self._judged(number, parameters, extend, cases)
            if first is None:
                first = verdict
            if verdict.change not in (Change.MATH, Change.UNKNOWN):
                return verdict, extend
            if extend == 0 and (verdict.change == Change.UNKNOWN or claim == Change.MATH):
                return verdict, 0
        if first is None:
            detail = "no small size meets the rule's requirements, or the program cannot shrink"
            return Verdict(Change.UNKNOWN, "sampled", (), 0, None, detail), 0
        return first, 0

    def _judged(
        self, number: int, parameters: Mapping[str, Value], extend: int, cases: list[Case]
    ) -> Verdict:
        """Classify cases; where a size is also a number in them, as that number counts."""

        def region_at(instance: Instance) -> Region | None:
            return self._region(number, instance, parameters, extend)

        def classified(cases: Sequence[Case], sizes: Iterable[Instance]) -> Verdict:
            made = ((one, region_at(one)) for one in sizes)
            witnesses = (
                Case(dict(one.sizes), region)
                for one, region in made
                if region is not None and cost_of(region) <= self.largest
            )
            return classify(cases, witnesses, self.seed, self.effort, self.tick)

        judging = Judging(
            region_at,
            lambda sizes: self._cases(number, parameters, extend, sizes),
            classified,
            self.bench.axes,
            self.seed,
        )
        return judging.verdict(cases, self.small, self.witnesses)

    def _same_trees(self, task: Task, parameters: Mapping[str, Value], cases: list[Case]) -> bool:
        """Return whether only the writing of schedules changes, where sums have one length each."""
        if any(p.counts == "rows" for p in task.transform.rule.parameters):
            return False  # with fewer rows than in the plan, another schedule may count
        default = parameters == task.variants[0]
        true = self.bench.true
        region = task.region if default else self._region(task.number, true, parameters)
        if region is None:
            return False
        lengths = {n.length for n in _nodes(region) if isinstance(n, Reduce)}
        spans = ((self.bench.axes[name].true, span) for name, span in self.plan.symbols.items())
        if any(size in lengths and not span.fixed for size, span in spans):
            return False
        return same_trees(region, [case.region for case in cases if not case.true])

    def _cases(
        self,
        number: int,
        parameters: Mapping[str, Value],
        extend: int,
        sizes: Iterable[Instance] | None = None,
    ) -> list[Case]:
        cases = []
        for instance in self.small if sizes is None else sizes:
            region = self._region(number, instance, parameters, extend)
            if region is None:
                continue
            true = instance.purpose == "true"
            if (true and _count(region) > MOST_NODES) or cost_of(region) > MOST_ELEMENTS:
                continue
            cases.append(Case(dict(instance.sizes), region, true))
        if all(case.true for case in cases):
            return [replace(case, true=False) for case in cases]
        return cases

    def _promises(
        self, region: Region | None, varying: tuple[tuple[Varying, ...], tuple[Varying, ...]]
    ) -> dict[str, Promise]:
        if region is None:
            return {}
        batch = self.plan.batch
        rows = None if batch is None else self.small[0].sizes[batch]
        found = promises_of(region.before, region.after, rows, varying, batch)
        return {
            name: Promise(before[0], after[0], after[1] or before[1])
            for name, (before, after) in found.items()
        }


def _nodes(region: Region) -> list[Node]:
    return list(topological([*region.before.results, *region.after.results]))


def _count(region: Region) -> int:
    return len(_nodes(region))


def _spread(variants: list[dict[str, Value]], most: int) -> list[dict[str, Value]]:
    """Return at most so many of the variants: the first, the last, and some between."""
    if len(variants) <= most:
        return variants
    return [variants[round(i * (len(variants) - 1) / (most - 1))] for i in range(most)]
