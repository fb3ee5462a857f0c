"""What each transform of a plan does to traffic, local storage, launches and memory.

A transform that only places values leaves the program as it was written; what it says of places
stays, so that later ones start from there. Any other transform costs what its new definitions cost,
where it says that they are computed. Shown are the launches that differ, at the plan's sizes.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from math import ceil
from typing import TypeVar

from lastbit.cost.apart import shown
from lastbit.cost.devices import Device
from lastbit.cost.kernels import CycleError
from lastbit.cost.layout import tile_of
from lastbit.cost.placement import Placement, Tile
from lastbit.cost.residence import Block, Occupancy, occupancy
from lastbit.cost.traffic import KernelCost, cost_of_program
from lastbit.cost.units import more, size, times_of
from lastbit.cost.whole import Whole
from lastbit.definitions import Definitions, reads
from lastbit.plan_model import Launch, Plan, Transform
from lastbit.records import Cost, Fit
from lastbit.rule import Edits, RejectedError, Site
from lastbit.verify.bench import Bench

T = TypeVar("T")
MORE_TRAFFIC, NO_ROOM, SPLIT_LOSES = "COST701", "COST702", "COST703"


@dataclass(frozen=True, slots=True)
class Account:
    """What a step costs.

    Attributes:
        cost: None where nothing can be counted.
        why: why that is so, as a sentence; empty otherwise.
        findings: code and message of what a reader should know.
        notes: what is not decided of it.
    """

    cost: Cost | None
    why: str = ""
    findings: tuple[tuple[str, str], ...] = ()
    notes: tuple[str, ...] = ()


class Ledger:
    """Counts the transforms of one plan, in order.

    Args:
        plan: the plan.
        bench: its program.
    """

    def __init__(self, plan: Plan, bench: Bench) -> None:
        self.plan, self.bench = plan, bench
        self._start: Whole | None = None
        self._peak = 0

    def step(self, number: int, transform: Transform) -> Account:
        """Return what a transform costs; one that stays changes what later ones start from."""
        bench = self.bench
        program = bench.before(number, bench.true)
        site = bench.site(transform, bench.true, program)
        try:
            edits = transform.rule.apply(site)
        except RejectedError:
            return Account(None, "the transform is not applied")
        try:
            if self._start is None:
                self._start = Whole.of(program, placement_of(self.plan))
                self._peak = self._start.peak_bytes
            return self._count(transform, site, edits)
        except CycleError as error:
            return Account(None, str(error))

    def _count(self, transform: Transform, site: Site, edits: Edits) -> Account:
        start, program = self._start, site.program
        assert start is not None
        rule = transform.rule
        places = Placement() if rule.places is None else rule.places(site)
        names = {*site.at, *_placed(places)}
        alone = start
        if rule.placement and rule.places is not None:
            placement = start.placement.then(places)
            if places.inside or places.together or not _is_tiled(start, site.at):
                # What only another tile brings is not the fault of what is computed where, and
                # before a tile is said there is nothing that it could be compared with.
                tiled = replace(start.placement, tiles=placement.tiles)
                alone, _ = start.changed(program, tiled, names)
        else:
            placement = inherited(program, edits, start.placement).then(places)
            program = program.edited(edits)
            names |= edits.keys()
        whole, near = start.changed(program, placement, names)
        peak = whole.peak_bytes
        account = self._account(transform, start, alone, whole, near, (self._peak, peak))
        if not transform.branch and (rule.places or not rule.placement):
            self._start, self._peak = whole, peak
        return account

    def _account(
        self,
        transform: Transform,
        start: Whole,
        alone: Whole,
        whole: Whole,
        near: frozenset[str],
        peaks: tuple[int, int],
    ) -> Account:
        sides = changed(start, whole, near, transform.at)
        grown = sum(c.bytes for c in whole.launches(near)) - sum(
            c.bytes for c in alone.launches(near)
        )
        device = self.plan.device
        spans = self.plan.symbols.items()
        cost = Cost(
            bytes=_pair(sum(k.bytes for k in side) for side in sides),
            local_bytes=_pair(_local(side) for side in sides),
            launches=_pair(sum(k.launches for k in side) for side in sides),
            peak_bytes=peaks,
            flops=_pair(sum(k.flops for k in side) for side in sides),
            fit=None if device is None else fit_of(device, self.plan.latency_ns, sides),
            at={name: span.typical for name, span in spans if not span.fixed},
        )
        label = f"{transform.rule.name} at {', '.join(f'`{name}`' for name in transform.at)}"
        findings = tuple(_findings(label, device, grown, *sides))
        return Account(cost, findings=findings, notes=tuple(_open(device, sides[1])))


def placement_of(plan: Plan) -> Placement:
    """Return how the program of a plan runs before any transform."""
    return Placement(
        {name: launch.tile for launch in plan.launches for name in launch.values},
        together=tuple(frozenset(launch.values) for launch in plan.launches),
        split=frozenset(name for launch in plan.launches if launch.split for name in launch.values),
    )


def _is_tiled(whole: Whole, names: Sequence[str]) -> bool:
    """Return whether it is said in which tiles the kernels of some values work.

    A launch that adds partial sums has no tile; that of its kernel is the tile of the pieces.
    """
    if all(cost.kernel.tile.cuts for cost in whole.launches(names)):
        return True
    return all(tile_of(whole.program, whole.placement, name).cuts for name in names)


def inherited(program: Definitions, edits: Edits, placement: Placement) -> Placement:
    """Return where values are computed once definitions are edited.

    A value that reads another no longer has it written out. It is then computed where that one was:
    in its tile, and around what is computed inside of it.
    """
    tiles, inside = dict(placement.tiles), set(placement.inside)
    for name, node in edits.items():
        if name not in program.nodes:
            continue
        own = tiles.get(name, Tile())
        for read in sorted(set(reads(program.nodes[name])) - set(reads(node))):
            inside |= {(inner, name) for inner, reader in placement.inside if reader == read}
            if not own.cuts and read in tiles:
                tiles[name] = own.over(tiles[read])
    return replace(placement, tiles=tiles, inside=frozenset(inside))


Sides = tuple[list[KernelCost], list[KernelCost]]


def changed(before: Whole, after: Whole, near: Iterable[str], at: Sequence[str]) -> Sides:
    """Return the launches of each side that the other has not; if none, those of the site.

    Args:
        before: the program before a step.
        after: and after it.
        near: the values of which launches may differ.
        at: the site.
    """
    names = sorted(near)
    old = {cost.key: cost for cost in before.launches(names)}
    new = {cost.key: cost for cost in after.launches(names)}
    left = [cost for key, cost in old.items() if key not in new]
    right = [cost for key, cost in new.items() if key not in old]
    if not left and not right:
        same = before.launches(at)
        return same, same
    return left, right


def _placed(placement: Placement) -> set[str]:
    """Return the values of which a placement says something."""
    pairs = {name for pair in placement.inside for name in pair}
    groups = (name for group in placement.together for name in group)
    return {*placement.tiles, *pairs, *groups, *placement.split, *placement.spills}


def fit_of(device: Device, latency_ns: int | None, sides: Sides) -> Fit | None:
    """Return how the blocks of each side sit on an SM; None where no tile is known."""
    found = [_tightest(device, side) for side in sides]
    if not any(found):
        return None
    runs = [None if pair is None else pair[0] for pair in found]
    return Fit(
        device=device.name,
        blocks=_pair(None if run is None else run.resident for run in runs),
        admitted=_admitted(runs),
        occupancy=_pair(
            None if run is None or not run.block.threads else float(run.share) for run in runs
        ),
        in_flight=_pair(None if pair is None else _coverage(*pair, latency_ns) for pair in found),
        ridge=None if device.ridge is None else float(device.ridge),
    )


def _admitted(runs: Sequence[Occupancy | None]) -> dict[str, tuple[int | None, int | None]]:
    """Return the blocks that each resource admits, as far as the plan says what a block needs."""
    names = ["shared memory", "blocks"]
    if any(run is not None and run.block.threads for run in runs):
        names.append("threads")
    if any(run is not None and run.block.registers for run in runs):
        names.append("registers")
    found = {n: _pair(None if run is None else run.admitted[n] for run in runs) for n in names}
    return dict(sorted(found.items(), key=lambda item: (item[1][1] or 0, item[0])))


def _tightest(device: Device, side: Sequence[KernelCost]) -> tuple[Occupancy, KernelCost] | None:
    """Return the launch of which an SM holds the fewest blocks."""
    runs = [(residence(device, cost), cost) for cost in side if cost.local_bytes is not None]
    return min(runs, key=lambda pair: pair[0].resident, default=None)


def residence(device: Device, cost: KernelCost) -> Occupancy:
    """Return how many blocks of a launch an SM holds, by what the plan says of them."""
    tile = cost.kernel.tile
    threads, registers, shared = tile.threads or 0, tile.registers or 0, cost.least_bytes
    if tile.in_registers:
        shared -= cost.accumulator_bytes
        registers += ceil(cost.accumulator_bytes / 4 / threads) if threads else 0
    return occupancy(device, Block(threads, registers, shared))


def _coverage(run: Occupancy, cost: KernelCost, latency_ns: int | None) -> float | None:
    """Return the bytes under way over those that are needed; None where the plan does not say."""
    loads = cost.kernel.tile.loads
    if latency_ns is None or loads is None or not run.block.threads:
        return None
    return float(run.coverage(latency_ns, loads))


def _findings(
    label: str,
    device: Device | None,
    grown: int,
    left: list[KernelCost],
    right: list[KernelCost],
) -> Iterator[tuple[str, str]]:
    """Yield code and message of what a reader should know.

    Args:
        label: the transform.
        device: where it runs.
        grown: bytes that are moved in addition; what is only due to another tile is left out.
        left: the launches that differ, before.
        right: and after.
    """
    before, after = (sum(cost.bytes for cost in side) for side in (left, right))
    partials = [sum(cost.partials for cost in side) for side in (left, right)]
    if partials[1] > partials[0]:
        text = None if device is None else _split(device, left, right)
        if text is not None:
            yield SPLIT_LOSES, f"{label}: {text}"
    elif grown > 0 and after > before:
        text = f"{label} moves {size(after)} instead of {size(before)} ({more(before, after)})"
        yield MORE_TRAFFIC, text + _most(left, right)
    if device is not None:
        # What had no room before and holds no more is not the transform's fault.
        before = max((c.least_bytes for c in left if not residence(device, c).resident), default=-1)
        for cost in right:
            if cost.least_bytes > before and (text := no_room(device, cost)):
                yield NO_ROOM, f"{label}: {text}"


def _open(device: Device | None, side: Sequence[KernelCost]) -> Iterator[str]:
    """Yield of which launches it is not decided whether a block fits."""
    for cost in side if device is not None else ():
        assert device is not None
        text = undecided(cost)
        if text and not no_room(device, cost):
            yield f"not decided whether it fits on {device.name}: {text}"


def _most(left: Sequence[KernelCost], right: Sequence[KernelCost]) -> str:
    """Say for what most of the additional traffic is."""
    moved: dict[str, list[int]] = {}
    for side, costs in enumerate((left, right)):
        for cost in costs:
            for name, count in cost.read.items():
                moved.setdefault(f"reads of {shown(name)}", [0, 0])[side] += count
            for name, count in cost.written.items():
                moved.setdefault(f"writes of {shown(name)}", [0, 0])[side] += count
            moved.setdefault("running sums", [0, 0])[side] += cost.spilled
    name, (before, after) = max(moved.items(), key=lambda item: item[1][1] - item[1][0])
    return f", most of it for {name}: {size(before)} -> {size(after)}"


def no_room(device: Device, cost: KernelCost) -> str:
    """Say that a block of a launch does not fit on a device; empty where it does."""
    run = residence(device, cost)
    if run.resident:
        return ""
    names = ", ".join(shown(name) for name in cost.kernel.values)
    if run.admitted["shared memory"] == 0:
        held = f"operands {size(cost.held.operands)}"
        if not cost.kernel.tile.in_registers:
            held += f", running sums {size(cost.held.accumulators)}"
        least = f"{device.name} gives one block {size(device.block_bytes)}"
        some = "" if cost.held.known else "at least "
        return f"a block of {names} holds {some}{size(run.block.shared_bytes)} ({held}); {least}"
    needs = f"{run.block.threads} threads with {run.block.registers} registers each"
    return f"a block of {names} has {needs}; {device.name} holds no such block"


def undecided(cost: KernelCost) -> str:
    """Say what a tile leaves open of what its block holds; empty where it leaves nothing open."""
    tile = cost.kernel.tile
    if not tile.cuts or cost.held.known or not cost.least_bytes:
        return ""
    names = ", ".join(shown(name) for name in cost.kernel.values)
    sizes = (("rows", tile.rows), ("columns", tile.columns), ("depth", tile.depth))
    missing = ", ".join(f"`{name}`" for name, length in sizes if length is None)
    return f"a block of {names} holds at least {size(cost.least_bytes)}; its tile has no {missing}"


def at_start(plan: Plan, program: Definitions) -> Iterator[tuple[Launch, str]]:
    """Yield the kernels that a plan describes and that do not fit on its device, and why.

    Args:
        plan: the plan.
        program: its program, before any transform.
    """
    if plan.device is None or not plan.launches:
        return
    try:
        kernels = cost_of_program(program, placement_of(plan)).kernels
    except CycleError:
        return
    for cost in kernels:
        text = no_room(plan.device, cost)
        for launch in plan.launches if text else ():
            if not {*cost.kernel.values}.isdisjoint(launch.values):
                yield launch, text


def _split(device: Device, left: Sequence[KernelCost], right: Sequence[KernelCost]) -> str | None:
    """Say that a split loses, where its partial sums cost more than its blocks save.

    Both sides are taken to be limited by the bandwidth, of which each SM without a block leaves its
    share unused.
    """
    blocks = [max((c.blocks for c in side if c.blocks), default=0) for side in (left, right)]
    if not all(blocks):
        return None
    busy = [min(device.sms, count) for count in blocks]
    times = [
        Fraction(sum(cost.bytes for cost in side) * device.sms, device.bandwidth * sms)
        for side, sms in zip((left, right), busy, strict=True)
    ]
    if times[1] < times[0]:
        return None
    extra = sum(c.bytes for c in right) - sum(c.bytes for c in left)
    partials = sum(c.partials for c in right) - sum(c.partials for c in left)
    what = "its partial sums" if extra <= partials else "its partial sums and what is read again"
    launches = sum(c.launches for c in right) - sum(c.launches for c in left)
    passes = f" and {launches} launch{'' if launches == 1 else 'es'}" if launches > 0 else ""
    change = f"{size(extra)}{passes}: {times_of(*times)}"
    where = f"the {device.sms} SMs of {device.name}"
    if busy[0] == device.sms:
        return f"{blocks[0]} blocks keep {where} busy without it; {what} add {change}"
    less = "no more" if times[0] == times[1] else "less"
    text = f"{blocks[1]} blocks instead of {blocks[0]} on {where} save {less} than {what}"
    return f"{text} cost, {change}"


def _local(side: Sequence[KernelCost]) -> int | None:
    """Return the most that a block holds; None where a tile is said that leaves it open."""
    if any(c.local_bytes is None and c.kernel.tile.cuts for c in side):
        return None
    return max((c.local_bytes for c in side if c.local_bytes is not None), default=None)


def _pair(values: Iterable[T]) -> tuple[T, T]:
    before, after = values
    return before, after
