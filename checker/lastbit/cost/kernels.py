"""The launches of a program under a placement, in the order in which they run."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from math import ceil, prod

from lastbit.cost.apart import added_pieces
from lastbit.cost.counting import extent, place, total
from lastbit.cost.placement import Placement, Spill, Tile
from lastbit.cost.reading import Loop, Need, needs_of
from lastbit.cost.stored import is_stored
from lastbit.definitions import Definitions, reads
from lastbit.errors import LastbitError
from lastbit.graph import Input, Node, Reduce, View, substitute, topological

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
        adding: those of its values to which blocks add their pieces as they come; the definition is
            that of the pieces.
        spills: the running sums that it stores in between, by value, with their elements.
        reads: the values that it reads.
    """

    values: tuple[str, ...]
    nodes: Mapping[str, Node]
    tile: Tile
    adding: frozenset[str] = frozenset()
    spills: Mapping[str, tuple[int, Spill]] = field(default_factory=dict)
    reads: tuple[str, ...] = field(init=False)

    def __post_init__(self) -> None:
        names = dict.fromkeys(name for node in self.nodes.values() for name in reads(node))
        read = tuple(name for name in names if name not in self.nodes)
        object.__setattr__(self, "reads", read)

    @property
    def key(self) -> tuple[object, ...]:
        """Return what two launches share that do the same work."""
        nodes = ((name, node.key) for name, node in self.nodes.items())
        return (*nodes, self.tile, self.adding, *self.spills.items())

    @property
    def blocks(self) -> int | None:
        """Return the number of blocks of threads; None where the tile does not say."""
        said = {-1: self.tile.columns, -2: self.tile.rows}
        counts = []
        for node in self.nodes.values():
            loops = [Loop(axis, size) for axis, size in enumerate(node.shape, -len(node.shape))]
            if any(loop.length > 1 and said.get(loop.place, 1) is None for loop in loops):
                return None
            tiles = (ceil(loop.length / max(1, extent(loop, self.tile))) for loop in loops)
            counts.append(prod(tiles))
        return max(counts) if self.tile.cuts else None

    @property
    def roots(self) -> list[Node]:
        """Return its definitions, without those that are computed on the way to another."""
        nodes = list(self.nodes.values())
        return [
            node
            for node in nodes
            if not any(_on_the_way(node, other) for other in nodes if other is not node)
        ]

    @property
    def needs(self) -> Iterator[Need]:
        """Yield every way in which it needs a node."""
        for node in self.roots:
            yield from needs_of(node)

    @property
    def flops(self) -> int:
        """Return its additions, multiplications and other operations; what it repeats counts."""
        found: dict[bytes, list[Need]] = {}
        for need in self.needs:
            if not isinstance(need.node, Input):
                found.setdefault(need.node.key, []).append(need)
        return sum(total(place(need, self.tile) for need in needs) for needs in found.values())


def kernels_of(program: Definitions, placement: Placement) -> list[Kernel]:
    """Return the launches that the results need, each after those that it reads.

    Raises:
        CycleError: values that are placed together cannot share a kernel.
    """
    written_out = Expanded(program, placement)
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
        kernel = written_out.kernel(values, members)
        found.update(dict.fromkeys(values, kernel))
    return in_order(found)


def _on_the_way(node: Node, other: Node) -> bool:
    """Return whether all of a node is computed on the way to another one."""
    seen, stack = {other.key}, [other]
    while stack:
        top = stack.pop()
        if top.key == node.key:
            return True
        for arg in () if isinstance(top, View) and top.kind == "slice" else top.args:
            if arg.key not in seen:
                seen.add(arg.key)
                stack.append(arg)
    return False


def kernel_of(
    program: Definitions,
    values: Iterable[str],
    returned: Sequence[str],
    said: Placement = Placement(),  # noqa: B008  a frozen value
) -> Kernel:
    """Return one launch that computes some values and returns some of them.

    Args:
        program: the program.
        values: what the launch computes.
        returned: what of it is stored.
        said: what else is known of how values are computed; its tiles do not count.
    """
    inner = set(values)
    pairs = ((read, name) for name in inner for read in reads(program.nodes[name]) if read in inner)
    placement = replace(said, tiles={}, inside=frozenset(pairs), together=())
    return Expanded(program, placement).kernel(returned, returned)


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


class Expanded:
    """Definitions with the values that are computed inside their reader written out."""

    def __init__(self, program: Definitions, placement: Placement) -> None:
        self.program, self.placement, self.inside = program, placement, placement.inside
        self._rank = {name: number for number, name in enumerate(placement.tiles)}
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

    def kernel(self, values: Sequence[str], members: Sequence[str]) -> Kernel:
        """Return the launch that computes some values and returns some of them."""
        nodes = {value: self.within(value, members) for value in values}
        adding = self.placement.adding.intersection(values)
        spills = {}
        for name in self._computed(members) if self.placement.spills else ():
            if name in self.placement.spills:
                size = prod(self.program.nodes[name].shape)
                spills[name] = (size, self.placement.spills[name])
        for name in adding:
            nodes[name] = added_pieces(nodes[name])
        return Kernel(tuple(values), nodes, self.tile(members), adding, spills)

    def tile(self, members: Sequence[str]) -> Tile:
        """Return the tile of a kernel, of those that its values have.

        A sum that is computed inside counts like a value that is returned where it has the shape of
        one; else its tile is taken where no other is said.
        """
        tiles = self.placement.tiles
        if not tiles:
            return WHOLE
        shapes = {self.program.nodes[name].shape for name in members}
        computed = [name for name in self._computed(members) if name in tiles]
        sums = [n for n in computed if n not in members and has_sum(self.program.nodes[n])]
        own = [n for n in sums if self.program.nodes[n].shape in shapes]
        tile = WHOLE
        for name in sorted({*members, *own} & tiles.keys(), key=self._rank.__getitem__):
            tile = tiles[name].over(tile)
        for name in sums if tile.rows is None and tile.columns is None else ():
            tile = tile.over(tiles[name])
        return tile

    def _computed(self, members: Sequence[str]) -> list[str]:
        """Return what a kernel computes: its members, and what is inside of them."""
        seen = dict.fromkeys(members)
        stack = list(members)
        while stack:
            name = stack.pop()
            for read in reads(self.program.nodes[name]):
                if read not in seen and self.holds(read, name):
                    seen[read] = None
                    stack.append(read)
        return list(seen)

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


@lru_cache(maxsize=1 << 14)
def has_sum(node: Node) -> bool:
    """Return whether a definition adds up terms in an accumulator."""
    return any(isinstance(n, Reduce) and n.acc is not None for n in topological([node]))
