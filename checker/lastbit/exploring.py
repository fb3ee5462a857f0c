"""Explore a plan: which kernels and tiles move least, of those that its budget permits.

Fusion boundaries and tiles change no bit, and neither does the place of a quantization. The plan's
other transforms are options: each is judged as `lint` judges it, and one that the budget forbids is
dropped. What is left is the program as written, and with each option.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import date

from lastbit.cost.devices import Device
from lastbit.cost.kernels import CycleError
from lastbit.cost.search import Alternative, Explored, explore
from lastbit.cost.traffic import ProgramCost, cost_of_program
from lastbit.costing import placement_of
from lastbit.definitions import Definitions
from lastbit.demands import budget_at
from lastbit.errors import InputError, Problem, did_you_mean
from lastbit.lint import shortfalls
from lastbit.plan import load_plan
from lastbit.plan_model import Plan, Transform
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
        options: the program as written, and with each option.
        forbidden: the transforms that are no options.
    """

    plan: str
    operators: int
    sizes: Mapping[str, int]
    device: Device | None
    start: ProgramCost | None
    options: tuple[Option, ...]
    forbidden: tuple[Forbidden, ...]

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
    device: Device | None = None,
    only: Iterable[str] = (),
    today: date | None = None,
    seed: int = 0,
) -> Exploration:
    """Return the best ways to run the program of a plan.

    Args:
        path: the plan.
        device: the device, in place of the plan's.
        only: values that may share kernels; none: all.
        today: the day with which the ends of `[[allow]]` are compared; by default this day.
        seed: selects every draw of a verdict.

    Raises:
        InputError: the plan cannot be used, or has no value of a name.
        TooManyError: the program has too many partitions.
    """
    plan = with_size_symbols(load_plan(path, today or date.today()))
    if plan.after is not None:
        message = f"{plan.file} compares two graphs, and one is explored"
        raise InputError([Problem(message, "Take `after` out, or name its graph [graph].")])
    plan = replace(plan, device=device or plan.device)
    bench = Bench(plan)
    program = bench.before(0, bench.true)
    free = _free(program, only)
    capacity = None if plan.device is None else plan.device.block_bytes
    judged, forbidden = _judged(plan, seed)
    options = [Option((), explore(program, capacity, free))]
    for names, changed in _variants(judged):
        options.append(Option(names, explore(changed, capacity, free)))
    spans = plan.symbols.items()
    return Exploration(
        plan=plan.file,
        operators=sum(not program.is_input(name) for name in program.nodes),
        sizes={name: span.typical for name, span in spans if not span.fixed},
        device=plan.device,
        start=_start(plan, program),
        options=tuple(options),
        forbidden=tuple(forbidden),
    )


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


def _variants(plan: Plan) -> Iterator[tuple[tuple[str, ...], Definitions]]:
    """Yield the program with each option, and with those before it that stay."""
    bench = Bench(plan)
    kept: list[str] = []
    for number, transform in enumerate(plan.transforms):
        program = bench.before(number, bench.true)
        edits = bench.edits(number, bench.true, program)
        yield (*kept, transform.id), program.edited(edits)
        if not transform.branch:
            kept.append(transform.id)
