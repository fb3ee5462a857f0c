"""Enumerate the ways to cut a program into kernels and tiles, and keep the best of them.

Where a value reads another, both are computed in one kernel or in two; n operators in a chain give
2^(n-1) partitions. So may two products of one operand. A kernel that holds a sum works in a tile
that fits the device and in which no sum is computed twice; kernels and tiles that a plan describes
are among those that are tried, whatever they do. Traffic adds up over the kernels and local storage
is that of the largest block, so under a limit on local storage each kernel is chosen on its own.
All partitions are looked at under all limits that make a difference: the front is exact.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise, product

from lastbit.cost.apart import is_partial
from lastbit.cost.kernels import WHOLE, CycleError, Kernel, kernel_of, kernels_of
from lastbit.cost.layout import Laid, is_cut, is_uniform, laid_out
from lastbit.cost.placement import ALL, Placement, Tile
from lastbit.cost.tiles import by_node, filled, is_sum, repeated, worth
from lastbit.cost.traffic import KernelCost, kernel_cost
from lastbit.definitions import Definitions, reads
from lastbit.errors import LastbitError

MOST_SEAMS = 16  # places at which a program may be cut: 65,536 partitions

Group = frozenset[str]
Fits = Callable[[KernelCost], bool]


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
    program: Definitions,
    capacity: int | None = None,
    free: Iterable[str] | None = None,
    own: Sequence[Placement] = (),
    said: Placement = Placement(),  # noqa: B008  a frozen value
    fits: Fits | None = None,
) -> Explored:
    """Return the best ways to run a program.

    Args:
        program: the program at fixed sizes.
        capacity: bytes that a block may hold; None: any number.
        free: the values that may share kernels; None: all.
        own: ways in which the program is run already; nothing that is found is worse.
        said: which sums are split across blocks, and which running sums are stored in between.
        fits: whether a launch fits, in place of the capacity.

    Raises:
        TooManyError: there are too many ways.
    """
    laid = laid_out(program, replace(said, tiles={}, inside=frozenset(), together=()))
    alone = {kernel.values[0]: kernel for kernel in kernels_of(laid.program, laid.placement)}
    wanted = set(alone if free is None else free)
    seams = [seam for seam in seams_of(alone) if wanted.issuperset(seam)]
    if len(seams) > MOST_SEAMS:
        raise TooManyError(len(seams))
    ways = [laid_out(program, replace(way, split=said.split)) for way in own]
    options = _Options(laid, alone, fits or _within(capacity), ways)
    partitions = [tuple(map(options.of, groups)) for groups in _partitions(alone, seams)]
    partitions = list(dict.fromkeys([*partitions, *options.own]))
    possible = [part for part in partitions if all(map(options.choices, part))]
    cheapest = [Alternative(tuple(options.choices(k)[0] for k in part)) for part in possible]
    return Explored(
        len(partitions),
        tuple(sorted(cheapest, key=lambda a: a.rank)),
        tuple(_front(options, possible)),
    )


def seams_of(alone: Mapping[str, Kernel]) -> list[tuple[str, str]]:
    """Return the pairs of values that may share a kernel on their own.

    One reads the other, or both are sums that read the same value one after the other. Partial sums
    are complete only when their launch is.

    Args:
        alone: each value in a kernel of its own.
    """
    out = []
    readers: dict[str, list[str]] = {}
    waits = _waits(alone)
    for name, kernel in alone.items():
        has_sum = any(is_sum(need.node) for need in kernel.needs)
        for read in kernel.reads:
            if read in alone and (read, name) not in waits:
                out.append((read, name))
            if has_sum:
                readers.setdefault(read, []).append(name)
    for sums in readers.values():
        out += [pair for pair in pairwise(sums) if pair not in out and pair[::-1] not in out]
    return list(dict.fromkeys(out))


def _waits(alone: Mapping[str, Kernel]) -> set[tuple[str, str]]:
    """Return the pairs (value, reader) of which the reader waits for all blocks of the other."""
    return {
        (read, name)
        for name, kernel in alone.items()
        for read in kernel.reads
        if read in alone and (is_partial(read) or alone[read].adding)
    }


def _partitions(
    alone: Mapping[str, Kernel], seams: Sequence[tuple[str, str]]
) -> Iterator[tuple[Group, ...]]:
    """Yield the partitions in which no kernel waits for itself or for one that waits for it."""
    values = list(alone)
    number = {name: i for i, name in enumerate(values)}
    below = [[number[r] for r in kernel.reads if r in number] for kernel in alone.values()]
    waits = [(number[read], number[name]) for read, name in _waits(alone)]
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
        if any(home[read] == home[name] for read, name in waits):
            continue
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


Key = Hashable  # what a kernel computes, whatever its tile
Partition = tuple[Key, ...]


class _Options:
    """The kernels of all partitions: each is costed once in each tile.

    Attributes:
        own: the partitions of the ways in which the program is run already.
    """

    def __init__(
        self,
        laid: Laid,
        alone: Mapping[str, Kernel],
        fits: Fits,
        own: Iterable[Laid],
    ) -> None:
        self.program, self.said, self.fits = laid.program, laid.placement, fits
        self.order = {name: i for i, name in enumerate(alone)}
        self.users: dict[str, set[str]] = {}
        for name, kernel in alone.items():
            for read in kernel.reads:
                self.users.setdefault(read, set()).add(name)
        self._kernels: dict[Key, tuple[Kernel, tuple[str, ...]]] = {}
        self._of: dict[Group, Key] = {}
        self._tiles: dict[Key, dict[Tile, None]] = {}  # of a plan's own kernels
        self._said: dict[str, dict[Tile, None]] = {}  # what a plan says of the tile of a value
        self._known: dict[Key, list[Choice]] = {}
        self.own = list(filter(None, map(self._partition, own)))

    def of(self, group: Group) -> Key:
        """Return the kernel that computes a group of values."""
        if group not in self._of:
            names = sorted(group, key=self.order.__getitem__)
            returned = [
                name
                for name in names
                if name in self.program.outputs or not group.issuperset(self.users.get(name, ()))
            ]
            inside = tuple(name for name in names if name not in returned)
            kernel = kernel_of(self.program, names, returned, self.said)
            self._of[group] = self._add(kernel, inside)
        return self._of[group]

    def _add(self, kernel: Kernel, inside: tuple[str, ...]) -> Key:
        key = tuple((name, node.key) for name, node in kernel.nodes.items())
        self._kernels.setdefault(key, (replace(kernel, tile=WHOLE), inside))
        return key

    def _partition(self, laid: Laid) -> Partition | None:
        """Return the kernels of a placement; None where they wait for each other."""
        placement = laid.placement
        for name, tile in placement.tiles.items():
            self._said.setdefault(name, {})[tile] = None
        try:
            kernels = kernels_of(self.program, placement)
        except CycleError:
            return None
        out = []
        for kernel in kernels:
            key = self._add(kernel, self._inside(kernel))
            self._tiles.setdefault(key, {})[kernel.tile] = None
            out.append(key)
        return tuple(out)

    def _inside(self, kernel: Kernel) -> tuple[str, ...]:
        """Return the values that a kernel computes on the way."""
        found: dict[str, None] = {}
        stack = list(kernel.values)
        while stack:
            for read in reads(self.program.nodes[stack.pop()]):
                known = read in kernel.reads or read in kernel.values or read in found
                if not known and read in self.order:
                    found[read] = None
                    stack.append(read)
        return tuple(sorted(found, key=self.order.__getitem__))

    def choices(self, key: Key) -> list[Choice]:
        """Return a kernel in the tiles that are worth while, least traffic first; none may fit."""
        if key not in self._known:
            self._known[key] = _undominated(self._found(key))
        return self._known[key]

    def _found(self, key: Key) -> Iterator[Choice]:
        kernel, inside = self._kernels[key]
        needs = list(kernel.needs)
        sums = by_node(need for need in needs if is_sum(need.node))
        own = dict.fromkeys(f for tile in self._tiles.get(key, ()) for f in filled(tile, needs))
        said = (tile for name in (*kernel.values, *inside) for tile in self._said.get(name, ()))
        tried = (t for tile in said for t in filled(tile, needs))
        nodes = [self.program.nodes[name] for name in (*kernel.values, *inside)]
        waits = any(map(is_uniform, nodes))  # for all that other tiles compute
        for tile in dict.fromkeys((*own, *tried, *worth(kernel, needs))):
            cut = waits and any(is_cut(node, tile) for node in nodes)
            again = cut or any(repeated(same, tile) for same in sums)
            if not again or tile in own:
                yield from self._choice(kernel, inside, tile)

    def _choice(self, kernel: Kernel, inside: tuple[str, ...], tile: Tile) -> Iterator[Choice]:
        """Yield a kernel in a tile, if it fits."""
        cost = kernel_cost(self.program, replace(kernel, tile=tile), kernel.values)
        if self.fits(cost):
            local = cost.least_bytes
            yield Choice(kernel.values, inside, tile, cost.bytes, local, cost.launches)


def _within(capacity: int | None) -> Fits:
    return lambda cost: capacity is None or cost.least_bytes <= capacity


def _undominated(found: Iterable[Choice]) -> list[Choice]:
    """Return the choices of which no other moves no more and holds no more, by traffic."""
    out: list[Choice] = []
    for choice in sorted(found, key=lambda c: (c.bytes, c.local_bytes, c.launches, _cut(c.tile))):
        if not out or choice.local_bytes < out[-1].local_bytes:
            out.append(choice)
    return out


def _cut(tile: Tile) -> tuple[int, ...]:
    """Return a key by which the tile comes first that cuts less."""
    return tuple(-(size or ALL) for size in (tile.depth, tile.columns, tile.rows))


def _front(options: _Options, partitions: Sequence[Partition]) -> Iterator[Alternative]:
    """Yield the alternatives that no other beats, by traffic."""
    keys = {key for partition in partitions for key in partition}
    limits = sorted({c.local_bytes for key in keys for c in options.choices(key)})
    least = {key: options.choices(key)[0].bytes for key in keys}
    bound = {partition: sum(least[key] for key in partition) for partition in partitions}
    ordered = sorted(partitions, key=bound.__getitem__)
    front: list[Alternative] = []
    for limit in limits:
        best = {
            key: next((c for c in options.choices(key) if c.local_bytes <= limit), None)
            for key in keys
        }
        winners: list[Alternative] = []
        most = front[-1].bytes - 1 if front else None  # what would be no less is of no interest
        for partition in ordered:
            if most is not None and bound[partition] > most:
                break
            chosen = [choice for key in partition if (choice := best[key]) is not None]
            if len(chosen) == len(partition):
                traffic = sum(choice.bytes for choice in chosen)
                if most is None or traffic <= most:
                    winners = winners if traffic == most and winners else []
                    winners.append(Alternative(tuple(chosen)))
                    most = traffic
        if winners:
            front.append(min(winners, key=lambda a: a.rank))
    yield from reversed(front)
