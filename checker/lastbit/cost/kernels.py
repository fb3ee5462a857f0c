"""The launches of a program under a placement, in the order in which they run."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from math import ceil, prod

from lastbit.cost.counting import extent, place, total
from lastbit.cost.placement import Placement, Tile
from lastbit.cost.reading import Loop, Need, needs_of
from lastbit.cost.stored import is_stored
from lastbit.definitions import Definitions, reads
from lastbit.errors import LastbitError
from lastbit.graph import Input, Node, Reduce, substitute, topological
from lastbit.schedule import Split

WHOLE = Tile()


class CycleError(LastbitError):
    """Values that cannot share a kernel, since another kernel would have to run in between.

    Attributes:
        values: what the kernel returns.
        between: a value that reads one of them and is read by another.
    """

    def __init__(self, values: Sequence[str], between: str) -> None:
        self.values, self.between = tuple(values), between
        names = ", ".join(f"`{name}`" for name in values)
        super().__init__(
            f"{names} cannot share a kernel: `{between}` reads one of them and is read by another. "
            f"Add `{between}` to the kernel, or split it."
        )


@dataclass(frozen=True, slots=True)
class Kernel:
    """One launch.

    Attributes:
        values: the named values that it returns.
        nodes: the definition of each, with the values that are computed inside written out.
        tile: the tile in which it works.
        reads: the values that it reads.
    """

    values: tuple[str, ...]
    nodes: Mapping[str, Node]
    tile: Tile
    reads: tuple[str, ...] = field(init=False)

    def __post_init__(self) -> None:
        names = dict.fromkeys(name for node in self.nodes.values() for name in reads(node))
        read = tuple(name for name in names if name not in self.nodes)
        object.__setattr__(self, "reads", read)

    @property
    def key(self) -> tuple[object, ...]:
        """Return what two launches share that do the same work."""
        return (*((name, node.key) for name, node in self.nodes.items()), self.tile)

    @property
    def blocks(self) -> int | None:
        """Return the number of blocks of threads; None where the tile does not say."""
        said = {-1: self.tile.columns, -2: self.tile.rows}
        counts = []
        for node in self.nodes.values():
            loops = [Loop(axis, size) for axis, size in enumerate(node.shape, -len(node.shape))]
            if any(loop.length > 1 and said.get(loop.place, 1) is None for loop in loops):
                return None
            reductions = {n.node for n in needs_of(node) if isinstance(n.node, Reduce)}
            pieces = max(map(pieces_of, reductions), default=1)
            tiles = (ceil(loop.length / max(1, extent(loop, self.tile))) for loop in loops)
            counts.append(prod(tiles) * pieces)
        return max(counts) if self.tile.cuts else None

    @property
    def needs(self) -> Iterator[Need]:
        """Yield every way in which it needs a node."""
        for node in self.nodes.values():
            yield from needs_of(node)

    @property
    def flops(self) -> int:
        """Return its additions, multiplications and other operations; what it repeats counts."""
        found: dict[bytes, list[Need]] = {}
        for need in self.needs:
            if not isinstance(need.node, Input):
                found.setdefault(need.node.key, []).append(need)
        return sum(total(place(need, self.tile) for need in needs) for needs in found.values())


def pieces_of(node: Reduce) -> int:
    """Return how many partial sums leave the kernel of a sum: 1 where it is not split."""
    schedule = node.schedule
    if not isinstance(schedule, Split) or not node.length:
        return 1
    n, size, tile = schedule.n, schedule.size, schedule.tile
    if size is None:
        assert isinstance(n, int)
        assert isinstance(tile, int)
        if schedule.deal == "interleaved":
            return min(n, ceil(node.length / tile))
        size = ceil(ceil(node.length / tile) / n) * tile
    assert isinstance(size, int)
    return ceil(node.length / size)


def kernels_of(program: Definitions, placement: Placement) -> list[Kernel]:
    """Return the launches that the results need, each after those that it reads.

    Raises:
        CycleError: values that are placed together cannot share a kernel.
    """
    written_out = _Expanded(program, placement)
    groups = groups_of(placement.together)
    live: dict[str, None] = {}
    stack = [name for name in reversed(program.outputs) if not program.is_input(name)]
    while stack:
        name = stack.pop()
        if name not in live:
            live[name] = None
            stack += [r for r in reads(written_out.node(name)) if not program.is_input(r)]
    wanted = set(program.outputs)
    for name in live:
        group = groups.get(name, {name})
        wanted.update(read for read in reads(written_out.node(name)) if read not in group)
    found: dict[str, Kernel] = {}
    for name in program.nodes:
        if name not in live or name not in wanted or name in found:
            continue
        group = groups.get(name, {name}) & live.keys()
        members = [name] if len(group) == 1 else [n for n in program.nodes if n in group]
        values = [member for member in members if member in wanted]
        nodes = {value: written_out.within(value, members) for value in values}
        kernel = Kernel(tuple(values), nodes, written_out.tile(members))
        found.update(dict.fromkeys(values, kernel))
    return in_order(found)


def kernel_of(program: Definitions, values: Iterable[str], returned: Sequence[str]) -> Kernel:
    """Return one launch that computes some values and returns some of them."""
    inner = set(values)
    pairs = ((read, name) for name in inner for read in reads(program.nodes[name]) if read in inner)
    written_out = _Expanded(program, Placement(inside=frozenset(pairs)))
    return Kernel(tuple(returned), {name: written_out.node(name) for name in returned}, WHOLE)


def groups_of(together: Iterable[frozenset[str]]) -> dict[str, set[str]]:
    """Return by value all that share its kernel; groups that share a value are one."""
    out: dict[str, set[str]] = {}
    for group in together:
        whole = set(group).union(*(out.get(name, ()) for name in group))
        out.update(dict.fromkeys(whole, whole))
    return out


def in_order(home: Mapping[str, Kernel]) -> list[Kernel]:
    """Return the kernels of all values, each after those that it reads.

    Raises:
        CycleError: there is no such order.
    """
    out: list[Kernel] = []
    begun: set[str] = set()
    done: set[str] = set()
    stack = [(kernel, False) for kernel in reversed(list(home.values()))]
    while stack:
        kernel, finished = stack.pop()
        first = kernel.values[0]
        if finished:
            out.append(kernel)
            done.add(first)
        elif first not in done:
            if first in begun:
                raise CycleError(*_between(home))
            begun.add(first)
            stack.append((kernel, True))
            for name in kernel.reads:
                if name in home and home[name].values[0] not in done:
                    stack.append((home[name], False))
    return out


def _between(home: Mapping[str, Kernel]) -> tuple[tuple[str, ...], str]:
    """Return a kernel that waits for itself, and a value on the way."""
    for kernel in home.values():
        path = {read: read for read in kernel.reads if read in home}
        stack = list(path)
        while stack:
            name = stack.pop()
            for read in home[name].reads:
                if read in kernel.values:
                    return kernel.values, path[name]
                if read in home and read not in path:
                    path[read] = path[name]
                    stack.append(read)
    raise AssertionError("there is no cycle")


class _Expanded:
    """Definitions with the values that are computed inside their reader written out."""

    def __init__(self, program: Definitions, placement: Placement) -> None:
        self.program, self.inside, self.tiles = program, placement.inside, placement.tiles
        self._known: dict[str, Node] = {}

    def holds(self, read: str, name: str) -> bool:
        """Return whether a value is computed inside a reader: it is placed there, or not stored."""
        return (read, name) in self.inside or not is_stored(self.program, read)

    def node(self, name: str) -> Node:
        """Return a definition with what is computed inside it written out."""
        stack = [name]
        while stack:
            top = stack[-1]
            inner = [r for r in reads(self.program.nodes[top]) if self.holds(r, top)]
            missing = [read for read in inner if read not in self._known]
            if top in self._known or not missing:
                stack.pop()
                if top not in self._known:
                    self._known[top] = self._with(self.program.nodes[top], inner)
            stack += missing if top not in self._known else []
        return self._known[name]

    def tile(self, members: Sequence[str]) -> Tile:
        """Return the tile of a kernel; where none is said, that of a sum computed inside of it."""
        tile = WHOLE
        for name in members:
            tile = self.tiles.get(name, WHOLE).over(tile)
        if tile.rows is None and tile.columns is None and self.tiles:
            stack, seen = list(members), set(members)
            while stack:
                name = stack.pop()
                for read in reads(self.program.nodes[name]):
                    if self.holds(read, name) and read not in seen:
                        seen.add(read)
                        stack.append(read)
                        if read in self.tiles and _has_sum(self.program.nodes[read]):
                            tile = tile.over(self.tiles[read])
        return tile

    def within(self, name: str, members: Sequence[str]) -> Node:
        """Return the same, with the other members of its kernel written out too."""
        node = self.node(name)
        while inner := [read for read in reads(node) if read in members and read != name]:
            node = self._with(node, inner)
        return node

    def _with(self, node: Node, names: Iterable[str]) -> Node:
        wanted = set(names)
        if not wanted:
            return node
        leaves = (n for n in topological([node]) if isinstance(n, Input) and n.name in wanted)
        new = {leaf.key: self._known[leaf.name] for leaf in leaves}
        return substitute([node], new)[node.key]


def _has_sum(node: Node) -> bool:
    return any(isinstance(n, Reduce) and n.acc is not None for n in topological([node]))
