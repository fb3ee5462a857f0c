"""Enumerate the ways to cut a program into kernels and tiles, and keep the best of them.

Where a value reads another, both are computed in one kernel or in two; n operators in a chain give
2^(n-1) partitions. So may two products of one operand. A kernel that holds a sum works in a tile
that fits the device and in which no sum is computed twice. Traffic adds up over the kernels and
local storage is that of the largest block, so under a limit on local storage each kernel can be
chosen on its own. All partitions are looked at under all limits that make a difference: the front
that comes out is exact.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise, product
from math import prod

from lastbit.cost.counting import place, total
from lastbit.cost.kernels import WHOLE, Kernel, kernel_of, kernels_of
from lastbit.cost.placement import ALL, Placement, Tile
from lastbit.cost.reading import Need
from lastbit.cost.traffic import kernel_cost
from lastbit.definitions import Definitions
from lastbit.errors import LastbitError
from lastbit.graph import Node, Reduce

EDGES = (16, 32, 64, 128, 256)  # rows and columns of a tile of a matrix product
DEPTH = 32  # terms of its sum that are loaded at a time; more of them save no traffic
PARTS = (512, 1024, 2048)  # terms of the sum of a row that are loaded at a time
MOST_SEAMS = 16  # places at which a program may be cut: 65,536 partitions

Group = frozenset[str]


class TooManyError(LastbitError):
    """A program with more partitions than are enumerated.

    Attributes:
        count: the places at which it may be cut.
    """

    def __init__(self, count: int) -> None:
        self.count = count
        super().__init__(
            f"the program can be cut at {count} places, which makes 2^{count} partitions; at most "
            f"2^{MOST_SEAMS} are enumerated. Name the values that may share kernels."
        )


@dataclass(frozen=True, slots=True)
class Choice:
    """One launch of an alternative, in one tile.

    Attributes:
        values: what it returns.
        inside: the values that it computes on the way, in order.
        tile: the tile in which it works.
        bytes: bytes across the interface.
        local_bytes: bytes that a block holds; 0 for a kernel through which all streams.
        launches: its launches.
    """

    values: tuple[str, ...]
    inside: tuple[str, ...]
    tile: Tile
    bytes: int
    local_bytes: int
    launches: int


@dataclass(frozen=True, slots=True)
class Alternative:
    """One way to run a program.

    Attributes:
        choices: its launches in order.
    """

    choices: tuple[Choice, ...]

    @property
    def bytes(self) -> int:
        """Return all bytes across the interface."""
        return sum(choice.bytes for choice in self.choices)

    @property
    def local_bytes(self) -> int:
        """Return the most that a block holds."""
        return max((choice.local_bytes for choice in self.choices), default=0)

    @property
    def launches(self) -> int:
        """Return the number of launches."""
        return sum(choice.launches for choice in self.choices)

    @property
    def rank(self) -> tuple[int, int, int, str]:
        """Return a key that sorts by traffic, then local storage, then launches."""
        names = "|".join("+".join((*choice.inside, *choice.values)) for choice in self.choices)
        return self.bytes, self.local_bytes, self.launches, names


@dataclass(frozen=True, slots=True)
class Explored:
    """What was found.

    Attributes:
        partitions: partitions that were looked at.
        cheapest: the cheapest alternative of each partition that fits, best first.
        front: the alternatives of which none has less traffic and as little local storage.
    """

    partitions: int
    cheapest: tuple[Alternative, ...]
    front: tuple[Alternative, ...]


def explore(
    program: Definitions, capacity: int | None = None, free: Iterable[str] | None = None
) -> Explored:
    """Return the best ways to run a program.

    Args:
        program: the program at fixed sizes.
        capacity: bytes that a block may hold; None: any number.
        free: the values that may share kernels; None: all.

    Raises:
        TooManyError: there are too many ways.
    """
    alone = {kernel.values[0]: kernel for kernel in kernels_of(program, Placement())}
    wanted = set(alone if free is None else free)
    seams = [seam for seam in seams_of(alone) if wanted.issuperset(seam)]
    if len(seams) > MOST_SEAMS:
        raise TooManyError(len(seams))
    partitions = list(_partitions(alone, seams))
    options = _Options(program, alone, capacity)
    possible = [groups for groups in partitions if all(map(options.choices, groups))]
    cheapest = [Alternative(tuple(options.choices(g)[0] for g in groups)) for groups in possible]
    return Explored(
        len(partitions),
        tuple(sorted(cheapest, key=lambda a: a.rank)),
        tuple(_front(options, possible)),
    )


def seams_of(alone: Mapping[str, Kernel]) -> list[tuple[str, str]]:
    """Return the pairs of values that may share a kernel on their own.

    One reads the other, or both are sums that read the same value one after the other.

    Args:
        alone: each value in a kernel of its own.
    """
    out = []
    readers: dict[str, list[str]] = {}
    for name, kernel in alone.items():
        has_sum = any(_is_sum(need.node) for need in kernel.needs)
        for read in kernel.reads:
            if read in alone:
                out.append((read, name))
            if has_sum:
                readers.setdefault(read, []).append(name)
    for sums in readers.values():
        out += [pair for pair in pairwise(sums) if pair not in out and pair[::-1] not in out]
    return list(dict.fromkeys(out))


def _partitions(
    alone: Mapping[str, Kernel], seams: Sequence[tuple[str, str]]
) -> Iterator[tuple[Group, ...]]:
    """Yield the partitions in which no two kernels wait for each other, each once."""
    values = list(alone)
    number = {name: i for i, name in enumerate(values)}
    below = [[number[r] for r in kernel.reads if r in number] for kernel in alone.values()]
    seen: set[tuple[int, ...]] = set()
    for closed in product((False, True), repeat=len(seams)):
        home = list(range(len(values)))  # of each value, the first one in its group
        for (a, b), shut in zip(seams, closed, strict=True):
            first, second = home[number[a]], home[number[b]]
            if shut and first != second:
                low, high = min(first, second), max(first, second)
                home = [low if h == high else h for h in home]
        key = tuple(home)
        if key in seen:
            continue
        seen.add(key)
        order = _order(home, below)
        if order is not None:
            groups: dict[int, set[str]] = {first: set() for first in order}
            for name, first in zip(values, home, strict=True):
                groups[first].add(name)
            yield tuple(frozenset(group) for group in groups.values())


def _order(home: Sequence[int], below: Sequence[Sequence[int]]) -> list[int] | None:
    """Return the groups, each after those that it reads; None where two wait for each other."""
    waits: dict[int, set[int]] = {first: set() for first in home}
    for first, read in zip(home, below, strict=True):
        waits[first].update(home[r] for r in read)
        waits[first].discard(first)
    out: list[int] = []
    while waits:
        ready = [first for first, others in waits.items() if others.issubset(out)]
        if not ready:
            return None
        out.append(min(ready))
        del waits[out[-1]]
    return out


class _Options:
    """The kernels of all partitions: each is costed once in each tile."""

    def __init__(
        self, program: Definitions, alone: Mapping[str, Kernel], capacity: int | None
    ) -> None:
        self.program, self.capacity = program, capacity
        self.order = {name: i for i, name in enumerate(alone)}
        self.users: dict[str, set[str]] = {}
        for name, kernel in alone.items():
            for read in kernel.reads:
                self.users.setdefault(read, set()).add(name)
        self._known: dict[Group, list[Choice]] = {}

    def choices(self, group: Group) -> list[Choice]:
        """Return a kernel in the tiles that are worth while, least traffic first; none may fit."""
        if group not in self._known:
            self._known[group] = self._best(group)
        return self._known[group]

    def _best(self, group: Group) -> list[Choice]:
        program = self.program
        names = sorted(group, key=self.order.__getitem__)
        returned = [
            name
            for name in names
            if name in program.outputs or not group.issuperset(self.users.get(name, ()))
        ]
        kernel = kernel_of(program, names, returned)
        needs = list(kernel.needs)
        sums = _by_node(need for need in needs if _is_sum(need.node))
        inside = tuple(name for name in names if name not in returned)
        found = []
        for tile in tiles_for(kernel, needs):
            if any(_repeated(same, tile) for same in sums):
                continue
            cost = kernel_cost(program, replace(kernel, tile=tile), returned)
            local = cost.local_bytes or 0
            if self.capacity is None or local <= self.capacity:
                found.append(Choice(kernel.values, inside, tile, cost.bytes, local, cost.launches))
        return _undominated(found)


def _undominated(found: Iterable[Choice]) -> list[Choice]:
    """Return the choices of which no other moves no more and holds no more, by traffic."""
    out: list[Choice] = []
    for choice in sorted(found, key=lambda c: (c.bytes, c.local_bytes, c.launches)):
        if not out or choice.local_bytes < out[-1].local_bytes:
            out.append(choice)
    return out


def _front(options: _Options, partitions: Sequence[tuple[Group, ...]]) -> Iterator[Alternative]:
    """Yield the alternatives that no other beats, by traffic."""
    groups = {group for partition in partitions for group in partition}
    limits = sorted({c.local_bytes for group in groups for c in options.choices(group)})
    front: list[Alternative] = []
    for limit in limits:
        best = {
            group: next((c for c in options.choices(group) if c.local_bytes <= limit), None)
            for group in groups
        }
        least: list[Alternative] = []
        for partition in partitions:
            chosen = [choice for group in partition if (choice := best[group]) is not None]
            if len(chosen) == len(partition):
                traffic = sum(choice.bytes for choice in chosen)
                if not least or traffic <= least[0].bytes:
                    new = Alternative(tuple(chosen))
                    least = [new] if not least or traffic < least[0].bytes else [*least, new]
        if least:
            winner = min(least, key=lambda a: a.rank)
            if not front or winner.bytes < front[-1].bytes:
                front.append(winner)
    yield from reversed(front)


def tiles_for(kernel: Kernel, needs: Iterable[Need]) -> Iterator[Tile]:
    """Yield the tiles in which a kernel may work: one, where it holds no reduction."""
    needs = list(needs)
    result = {loop for need in needs for loop in need.result}
    rows = max((loop.length for loop in result if loop.place == -2), default=1)
    columns = max((loop.length for loop in result if loop.place == -1), default=1)
    reductions = [need for need in needs if isinstance(need.node, Reduce)]
    sums = [need for need in reductions if _is_sum(need.node)]
    if not reductions:
        yield WHOLE
    elif any({-1, -2} <= {loop.place for loop in need.loops} for need in sums):
        across = [*_up_to(EDGES, columns), *([ALL] if columns > EDGES[-1] else [])]
        for m, n in product(_up_to(EDGES, rows), across):
            yield Tile(m, n, DEPTH)
    else:
        length = max((loop.length for need in sums for loop in need.loops if loop.sums), default=1)
        for depth in (ALL, *(part for part in PARTS if part < length)):
            yield Tile(1, ALL, depth)


def _up_to(sizes: Sequence[int], length: int) -> list[int]:
    return [size for size in sizes if size < 2 * length] or [sizes[0]]


def _is_sum(node: Node) -> bool:
    return isinstance(node, Reduce) and node.acc is not None


def _by_node(needs: Iterable[Need]) -> list[list[Need]]:
    out: dict[bytes, list[Need]] = {}
    for need in needs:
        out.setdefault(need.node.key, []).append(need)
    return list(out.values())


def _repeated(needs: Sequence[Need], tile: Tile) -> bool:
    """Return whether a sum is added up more than once."""
    return total(place(need, tile) for need in needs) > prod(needs[0].shape)
