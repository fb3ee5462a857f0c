"""Judge transforms that meet as one change: the program before all of them against that after.

Two transforms that stay in the program meet where the regions that they change share a value, or
where one reads a value of the other's. What meets is a whole, and gets a verdict of its own besides
those of its steps: a rounding that one step drops and another adds back is no change at all.

`wholes` says which step sets such a verdict, and what is known of it without judging.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from lastbit.definitions import Definitions, reads
from lastbit.errors import LastbitError
from lastbit.expression import Expression
from lastbit.plan_model import Transform
from lastbit.rule import Edits, RejectedError, Site, Value
from lastbit.schedule import Table
from lastbit.verify.bench import Bench, sampled_sizes
from lastbit.verify.decide import Decider, Judged, Task
from lastbit.verify.promises import Varying
from lastbit.verify.region import Region, inside_of, region_of, why_no_region
from lastbit.verify.sizing import Instance
from lastbit.verify.wholes import NO_SPECIAL
from lastbit.verify.witness import EFFORT

MOST_STEPS = 48  # steps that are judged as one change; of more, the law speaks

VaryingOf = Mapping[str, tuple[Varying, ...]]


@dataclass(frozen=True, slots=True)
class Reach:
    """The values that a transform changes, and those that it reads.

    Attributes:
        changed: the names whose definitions it changes.
        inside: the values of its region.
        reads: what these read from outside.
    """

    changed: frozenset[str]
    inside: frozenset[str]
    reads: frozenset[str]

    @classmethod
    def of(cls, old: Definitions, edits: Edits) -> Reach:
        """Return how far edits of a program reach."""
        new = old.edited(edits)
        inside = inside_of(old, new, edits)
        read = {
            name
            for program in (old, new)
            for value in inside & program.nodes.keys()
            for name in reads(program.nodes[value])
        }
        return cls(frozenset(edits), inside, frozenset(read) - inside)


def groups(reaches: Mapping[int, Reach]) -> list[tuple[int, ...]]:
    """Return the transforms that meet, two or more each, in the order of the plan."""
    root = {number: number for number in reaches}

    def find(number: int) -> int:
        while root[number] != number:
            number = root[number]
        return number

    owner: dict[str, int] = {}
    for number, reach in reaches.items():
        for name in reach.inside:
            root[find(number)] = find(owner.setdefault(name, number))
    for number, reach in reaches.items():
        for name in reach.reads & owner.keys():
            root[find(number)] = find(owner[name])
    found: dict[int, list[int]] = {}
    for number in reaches:
        found.setdefault(find(number), []).append(number)
    return sorted(tuple(sorted(numbers)) for numbers in found.values() if len(numbers) > 1)


class Composer:
    """Makes one task of transforms that meet.

    Args:
        bench: the plan's program at any sizes.
        varying: by name, the schedules that depend on a size, as the program is written and after
            all transforms.
    """

    def __init__(self, bench: Bench, varying: tuple[VaryingOf, VaryingOf]) -> None:
        self.bench, self.varying = bench, varying
        self._sizes: dict[tuple[str, ...], list[dict[str, Value]]] = {}

    def task(self, numbers: tuple[int, ...]) -> Task | str:
        """Return what to judge, or a sentence that says why it cannot be judged."""
        if len(numbers) > MOST_STEPS:
            return f"there are more than {MOST_STEPS} steps"
        bench = self.bench
        try:
            applied = list(self._applied(numbers, bench.true, None))
        except RejectedError as error:
            return str(error)
        old, new = bench.before(0, bench.true), _last(applied)
        changed = {name for _, _, edits in applied for name in edits}
        if not self._as_planned(applied):
            return "a step reads what transforms elsewhere change"
        region = region_of(old, new, changed)
        if region is None:
            return why_no_region(old, changed)
        before = tuple(v for name in region.before.values for v in self.varying[0].get(name, ()))
        after = [
            varying
            for name in region.after.values
            for varying in (self.varying[1] if name in changed else self.varying[0]).get(name, ())
        ]
        for transform, _, _ in applied:
            if transform.rule.placement:
                after += bench.variants(transform)[1]
        loosest = max(numbers, key=lambda n: bench.plan.transforms[n].rule.claim.rank)
        return Task(
            numbers[0],
            bench.plan.transforms[loosest],
            "",
            region,
            bench.axes_cut_by(applied),
            self._variants(numbers),
            (before, tuple(after)),
        )

    def changed(
        self, numbers: tuple[int, ...], instance: Instance, sizes: Mapping[str, Value] | None
    ) -> tuple[Definitions, Definitions, Iterable[str]]:
        """Return the program before all transforms and after some, and the names they edit.

        Args:
            numbers: the transforms.
            instance: the sizes of the program.
            sizes: sizes at which the parameters count, in place of those of the plan.

        Raises:
            InputError: the program does not bind at these sizes.
            RejectedError: a transform cannot be applied at these sizes.
        """
        applied = list(self._applied(numbers, instance, sizes))
        edited = {name for _, _, edits in applied for name in edits}
        return self.bench.before(0, instance), _last(applied), edited

    def _applied(
        self, numbers: tuple[int, ...], instance: Instance, sizes: Mapping[str, Value] | None
    ) -> Iterable[tuple[Transform, Site, Edits]]:
        """Yield each transform with its site and what it does there, in the order of the plan.

        Those that only place values come last, since later ones read the program as written.
        """
        bench, transforms = self.bench, self.bench.plan.transforms
        program = bench.before(0, instance)
        given = None if sizes is None else {name: int(size) for name, size in sizes.items()}
        for number in self._order(numbers):
            transform = transforms[number]
            site = bench.site(transform, instance, program, bench.parameters(transform, given))
            edits = transform.rule.apply(site)
            program = program.edited(edits)
            yield transform, site, edits

    def lasting(self, numbers: tuple[int, ...]) -> tuple[int, ...]:
        """Return the transforms that the program would miss at the plan's sizes.

        Left out are those that later ones undo, such as a schedule that is changed and changed
        back, and those that later ones overwrite. Where no other one is missed, all are returned.
        """
        try:
            applied = list(self._applied(numbers, self.bench.true, None))
        except RejectedError:
            return numbers
        order = self._order(numbers)
        states = [*(site.program for _, site, _ in applied), _last(applied)]
        names = {name for _, _, edits in applied for name in edits}
        left: list[int] = []
        place = 0
        while place < len(order):
            later = range(len(order), place, -1)
            same = next((k for k in later if _equal(states[place], states[k], names)), None)
            if same is None:
                left.append(order[place])
            place = place + 1 if same is None else same
        missed = [n for n in left if self._is_missed(n, left, states[-1], names)]
        return tuple(sorted(missed)) or numbers

    def _is_missed(
        self, number: int, numbers: Sequence[int], end: Definitions, names: set[str]
    ) -> bool:
        """Return whether the program ends otherwise without one of several transforms."""
        others = tuple(n for n in numbers if n != number)
        if not others:
            return True
        try:
            without = _last(list(self._applied(others, self.bench.true, None)))
        except LastbitError:
            return True
        return not _equal(without, end, names)

    def _order(self, numbers: Iterable[int]) -> list[int]:
        """Return transforms in the order of the plan; those that only place values come last."""
        transforms = self.bench.plan.transforms
        return sorted(numbers, key=lambda n: (transforms[n].rule.placement, n))

    def _as_planned(self, applied: Sequence[tuple[Transform, Site, Edits]]) -> bool:
        """Return whether transforms do alone what they do among all others of the plan."""
        written = [step for step in applied if not step[0].rule.placement]
        if not written:
            return True
        new = _last(written)
        end = self.bench.before(len(self.bench.plan.transforms), self.bench.true)
        changed = {name for _, _, edits in written for name in edits}
        return all(new.nodes[name].key == end.nodes[name].key for name in changed)

    def _variants(self, numbers: tuple[int, ...]) -> list[dict[str, Value]]:
        """Return sizes of symbols between them at which all values of the parameters occur."""
        transforms = self.bench.plan.transforms
        values = [
            value
            for number in numbers
            for value in transforms[number].parameters.values()
            if isinstance(value, Expression | Table)
        ]
        key = tuple(map(str, values))
        if key not in self._sizes:
            self._sizes[key] = self._joint(values)
        return self._sizes[key]

    def _joint(self, values: Sequence[Expression | Table]) -> list[dict[str, Value]]:
        true = self.bench.true.sizes
        found: list[dict[str, Value]] = [{}]
        seen = {tuple(value.evaluate(true) for value in values)}
        for symbol in sorted({symbol for value in values for symbol in value.symbols}):
            span = self.bench.plan.symbols[symbol]
            own = [value for value in values if symbol in value.symbols]
            for size in sorted({n for v in own for n in sampled_sizes(span.low, span.high, v)}):
                sizes = {**true, symbol: size}
                together = tuple(value.evaluate(sizes) for value in values)
                if together not in seen:
                    seen.add(together)
                    found.append({symbol: size})
        return found


def _equal(one: Definitions, other: Definitions, names: Iterable[str]) -> bool:
    """Return whether two programs define names alike; one that only one of them has is not read."""
    both = (name for name in names if name in one.nodes and name in other.nodes)
    return all(one.nodes[name].key == other.nodes[name].key for name in both)


def _last(applied: Sequence[tuple[Transform, Site, Edits]]) -> Definitions:
    _, site, edits = applied[-1]
    return site.program.edited(edits)


class WholeDecider(Decider):
    """Decides what several transforms do together.

    Args:
        composer: makes the tasks.
        seed: selects every draw.
    """

    # The steps have been judged by themselves, and bound what they do together.
    effort = EFFORT // 8
    largest = EFFORT // 8
    special_sizes = 1
    most_special = 1 << 9

    def __init__(self, composer: Composer, seed: int = 0) -> None:
        super().__init__(composer.bench, seed)
        self.composer = composer
        self._numbers: tuple[int, ...] = ()
        self._special = 0  # regions that were put to special inputs

    def decide_whole(self, numbers: tuple[int, ...]) -> Judged:
        """Return what transforms that meet do together."""
        task = self.composer.task(numbers)
        assert isinstance(task, Task)
        self._numbers, self._special = numbers, 0
        judged = self.decide(task)
        notes = () if self._special or not judged.promises else (NO_SPECIAL,)
        return replace(judged, notes=(*judged.notes, *notes))

    def _regions(
        self,
        number: int,
        sizes: list[Instance],
        parameters: Mapping[str, Value] | None,
        extend: int,
    ) -> Iterator[Region]:
        for region in super()._regions(number, sizes, parameters, extend):
            self._special += 1
            yield region

    def _programs(
        self, number: int, instance: Instance, parameters: Mapping[str, Value] | None
    ) -> tuple[Definitions, Definitions, Iterable[str]]:
        return self.composer.changed(self._numbers, instance, parameters or None)
