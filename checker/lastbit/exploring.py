"""Explore a plan: which kernels and tiles move least, of those that its budget permits.

Fusion boundaries and tiles change no bit, and neither does the place of a quantization. So the
plan's kernels, and its transforms that only place values, are among what is compared. Its other
transforms are options: each is judged as `lint` judges it, and one that the budget forbids is
dropped. What is left is the program as written, and with each option.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date

from lastbit.cost.devices import Device, device_of
from lastbit.cost.kernels import CycleError
from lastbit.cost.placement import Placement
from lastbit.cost.search import Alternative, Explored, explore
from lastbit.cost.traffic import KernelCost, ProgramCost, cost_of_program
from lastbit.costing import inherited, no_room, placement_of, residence
from lastbit.definitions import Definitions
from lastbit.demands import budget_at
from lastbit.errors import InputError, Problem, did_you_mean
from lastbit.lint import shortfalls
from lastbit.plan import load_plan
from lastbit.plan_model import Plan, Transform
from lastbit.rule import RejectedError
from lastbit.verify.bench import Bench
from lastbit.verify.decide import Judged
from lastbit.verify.judge import Judge
from lastbit.verify.literals import with_size_symbols


@dataclass(frozen=True, slots=True)
class Option:
    """The program as written, or with an option.

    Attributes:
        transforms: ids of the transforms that make it; none for the program as written.
        explored: its alternatives.
    """

    transforms: tuple[str, ...]
    explored: Explored


@dataclass(frozen=True, slots=True)
class Forbidden:
    """A transform that is no option.

    Attributes:
        transform: its id.
        code: of its rule.
        reason: what the budget says, or why it cannot be applied.
    """

    transform: str
    code: str
    reason: str


@dataclass(frozen=True, slots=True)
class Found:
    """An alternative of an option.

    Attributes:
        transforms: those of the option.
        alternative: launches and tiles.
    """

    transforms: tuple[str, ...]
    alternative: Alternative

    @property
    def rank(self) -> tuple[int, int, int, int, str]:
        """Return a key that sorts by traffic, storage, launches, then the fewest transforms."""
        traffic, local, launches, names = self.alternative.rank
        return traffic, local, launches, len(self.transforms), names


@dataclass(frozen=True, slots=True)
class Exploration:
    """What was found for a plan.

    Attributes:
        plan: the plan's path.
        operators: values that are computed.
        sizes: of the symbols, as they were taken.
        device: whose blocks must hold a kernel's working set; None: any size fits.
        start: the program in the kernels that the plan describes; None where it describes none.
        too_large: what of it does not fit on the device, as sentences.
        placed: the transforms that only place values.
        options: the program as written, and with each option.
        forbidden: the transforms that are no options.
    """

    plan: str
    operators: int
    sizes: Mapping[str, int]
    device: Device | None
    start: ProgramCost | None
    too_large: tuple[str, ...]
    placed: tuple[str, ...]
    options: tuple[Option, ...]
    forbidden: tuple[Forbidden, ...]

    @property
    def fit(self) -> int:
        """Return the number of partitions, of all options, in which every kernel fits."""
        return sum(len(option.explored.cheapest) for option in self.options)

    @property
    def ranked(self) -> list[Found]:
        """Return the cheapest alternative of each partition of each option, best first.

        Where an option changes no cost, its alternatives are those of the program without it.
        """
        found = [Found(o.transforms, a) for o in self.options for a in o.explored.cheapest]
        first: dict[object, Found] = {}
        for item in sorted(found, key=lambda item: item.rank):
            first.setdefault(item.alternative.rank, item)
        return list(first.values())

    @property
    def front(self) -> list[Found]:
        """Return those of which none moves less and holds as little, by traffic."""
        found = [Found(o.transforms, a) for o in self.options for a in o.explored.front]
        out: list[Found] = []
        for item in sorted(found, key=lambda item: item.rank):
            if not out or item.alternative.local_bytes < out[-1].alternative.local_bytes:
                out.append(item)
        return out


def explore_plan(
    path: str | os.PathLike[str],
    *,
    device: Device | str | None = None,
    only: Iterable[str] = (),
    today: date | None = None,
    seed: int = 0,
) -> Exploration:
    """Return the best ways to run the program of a plan.

    Args:
        path: the plan.
        device: the device, or its name, in place of the plan's; the plan may define it.
        only: values that may share kernels; none: all.
        today: the day with which the ends of `[[allow]]` are compared; by default this day.
        seed: selects every draw of a verdict.

    Raises:
        InputError: the plan cannot be used, or has no value of a name.
        UnknownDeviceError: nothing is known of the device.
        TooManyError: the program has too many partitions.
    """
    plan = with_size_symbols(load_plan(path, today or date.today()))
    if plan.after is not None:
        message = f"{plan.file} compares two graphs, and one is explored"
        raise InputError([Problem(message, "Take `after` out, or name its graph [graph].")])
    if isinstance(device, str):
        device = device_of(device, plan.devices)
    plan = replace(plan, device=device or plan.device)
    bench = Bench(plan)
    program = bench.before(0, bench.true)
    free = _free(program, only)
    judged, forbidden = _judged(plan, seed)
    placed = [transform for transform in plan.transforms if transform.rule.placement]
    ways = list(_ways(plan, program, placed))
    options = [
        Option(names, explore(changed, None, free, own, said, _fits(plan.device)))
        for names, changed, own, said in _variants(judged, ways)
    ]
    spans = plan.symbols.items()
    start = _start(plan, program)
    found = None if start is None or plan.device is None else (start, plan.device)
    return Exploration(
        plan=plan.file,
        operators=sum(not program.is_input(name) for name in program.nodes),
        sizes={name: span.typical for name, span in spans if not span.fixed},
        device=plan.device,
        start=start,
        too_large=() if found is None else tuple(_too_large(*found)),
        placed=tuple(transform.id for transform in placed),
        options=tuple(options),
        forbidden=tuple(forbidden),
    )


def _fits(device: Device | None) -> Callable[[KernelCost], bool]:
    return lambda cost: device is None or residence(device, cost).resident > 0


def _too_large(start: ProgramCost, device: Device) -> Iterator[str]:
    for cost in start.kernels:
        if text := no_room(device, cost):
            yield text


def _free(program: Definitions, only: Iterable[str]) -> list[str] | None:
    names = list(only)
    values = [name for name in program.nodes if not program.is_input(name)]
    for name in names:
        if name not in values:
            remedy = did_you_mean(name, values)
            raise InputError([Problem(f"the graph computes no value {name!r}", remedy)])
    return names or None


def _start(plan: Plan, program: Definitions) -> ProgramCost | None:
    try:
        return cost_of_program(program, placement_of(plan)) if plan.launches else None
    except CycleError:
        return None


def _judged(plan: Plan, seed: int) -> tuple[Plan, list[Forbidden]]:
    """Return the plan with its options alone, and the transforms that are none.

    What stands behind a forbidden transform that stays is judged again without it.
    """
    left = tuple(t for t in plan.transforms if not t.rule.placement)
    forbidden: list[Forbidden] = []
    while True:
        plan = replace(plan, transforms=left)
        for transform, judged in Judge(plan, seed).run():
            reason = _reason(plan, transform, judged)
            if reason:
                forbidden.append(Forbidden(transform.id, transform.rule.code, reason))
                left = tuple(t for t in left if t.id != transform.id)
                if not transform.branch:
                    break
        else:
            return replace(plan, transforms=left), forbidden


def _reason(plan: Plan, transform: Transform, judged: Judged) -> str:
    """Return why the plan forbids a transform; empty where it does not."""
    budget = budget_at(plan, (*transform.at, *judged.outputs))
    reasons = list(shortfalls(transform, judged, budget))
    allowed = any(a.covers(transform.rule.code, transform.at) for a in plan.allows)
    return reasons[0] if reasons and (judged.rejected or not allowed) else ""


def _ways(plan: Plan, program: Definitions, placed: Sequence[Transform]) -> Iterator[Placement]:
    """Yield how the plan's program runs, and how after each transform that only places values."""
    way = placement_of(plan)
    if plan.launches:
        yield way
    bench = Bench(plan)
    for transform in placed:
        site = bench.site(transform, bench.true, program)
        if transform.rule.places is None or not all(name in program.nodes for name in site.at):
            continue
        try:
            transform.rule.apply(site)
        except RejectedError:
            continue
        after = way.then(transform.rule.places(site))
        yield after
        if not transform.branch:
            way = after


Variant = tuple[tuple[str, ...], Definitions, list[Placement], Placement]


def _variants(plan: Plan, ways: list[Placement]) -> Iterator[Variant]:
    """Yield the program as it is, and with each option and those before it that stay.

    With it comes how it runs in the plan, and what is said of its sums.
    """
    bench = Bench(plan)
    kept: list[str] = []
    said = placement_of(plan)
    yield (), bench.before(0, bench.true), ways, said
    for number, transform in enumerate(plan.transforms):
        program = bench.before(number, bench.true)
        edits = bench.edits(number, bench.true, program)
        places = Placement()
        if transform.rule.places is not None:
            places = transform.rule.places(bench.site(transform, bench.true, program))
        after, *others = (inherited(program, edits, way).then(places) for way in [said, *ways])
        yield (*kept, transform.id), program.edited(edits), others, after
        if not transform.branch:
            kept.append(transform.id)
            said, ways = after, others
