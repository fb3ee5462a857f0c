"""A program as its launches compute it: what a placement and the data say together.

- A value that is computed inside its reader and that others read too, or that is a result, is
  stored by that kernel. One that holds a sum is computed once: the kernels of its readers are one.
- A sum that is split across blocks becomes partial sums, which one launch stores, and what another
  launch makes of them. What follows the sum element by element is computed where the pieces are
  added; what needs the sum along another axis comes after that, and reads its operands again.
- An extreme or a sum over all that the tiles of a kernel compute is none of its tiles' work: it has
  a launch of its own.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from math import prod

from lastbit.cost.apart import Apart, apart, split_sums
from lastbit.cost.counting import extent
from lastbit.cost.kernels import WHOLE, Expanded, groups_of, has_sum
from lastbit.cost.placement import Placement, Tile
from lastbit.cost.reading import Loop, needs_of
from lastbit.cost.stored import is_stored
from lastbit.definitions import Definitions, reads
from lastbit.graph import Input, Node, Reduce, topological


@dataclass(frozen=True, slots=True)
class Laid:
    """A program and its placement, with every launch's values named.

    Attributes:
        program: with the partial sums of split sums.
        placement: `split` is empty.
        names: the values whose definitions are not those of the program as it was given.
    """

    program: Definitions
    placement: Placement
    names: frozenset[str] = frozenset()

    def differences(self, other: Laid) -> set[str]:
        """Return the values of which another program or placement says something else."""
        one, two = self.placement, other.placement
        found = {n for n in self.names | other.names if self._key(n) != other._key(n)}
        for pair in one.inside ^ two.inside:
            found.update(pair)
        for group in set(one.together) ^ set(two.together):
            found.update(group)
        for name in one.tiles.keys() | two.tiles.keys():
            if one.tiles.get(name) != two.tiles.get(name):
                found.add(name)
        for name in one.spills.keys() | two.spills.keys():
            if one.spills.get(name) != two.spills.get(name):
                found.add(name)
        return found | (one.adding ^ two.adding)

    def _key(self, name: str) -> bytes | None:
        node = self.program.nodes.get(name)
        return None if node is None else node.key


def laid_out(program: Definitions, placement: Placement) -> Laid:
    """Return a program and its placement with every launch's values named."""
    if placement.inside:
        placement = _Joining(program, placement).placement()
    split = _Splitting(program, placement)
    for name in program.nodes if placement.split else ():
        if name in placement.split and is_stored(program, name):
            split.take(name)
    placement = replace(split.placement, split=frozenset())
    return Laid(split.program, _without_uniform(split.program, placement), frozenset(split.names))


class _Joining:
    """Which kernels are one, since they store or share what is computed inside of them."""

    def __init__(self, program: Definitions, placement: Placement) -> None:
        self.program, self.given = program, placement
        self.readers: dict[str, list[str]] = {}
        for value, reader in sorted(placement.inside):
            if value in program.nodes and reader in program.consumers(value):
                self.readers.setdefault(value, []).append(reader)
        self.groups = groups_of(placement.together)
        self._live: set[str] | None = None

    def placement(self) -> Placement:
        """Return the placement, with more values together."""
        together, dropped = list(self.given.together), set()
        for value in [name for name in self.program.nodes if name in self.readers]:
            own = self.readers[value]
            other = [name for name in self.program.consumers(value) if name not in own]
            elsewhere = value in self.program.outputs or any(name in self.live for name in other)
            if joined := self._followed(value, own):
                together.append(frozenset(joined))
                self.groups = groups_of(together)
                continue
            sums = self.has_sum(value)
            if not elsewhere and (not sums or len(own) < 2):
                continue
            if not sums and len(self.groups.get(value, ())) > 1:
                continue  # its own kernel stores it
            kernel: set[str] = {value} if elsewhere else set()
            for reader in own:
                top = self._top(reader)
                if self._may_join({value, top, *kernel}):
                    kernel.add(top)
                    if not sums:
                        break
                elif sums:
                    dropped.add((value, reader))
            if sums and dropped:
                kernel.add(value)
            if len(kernel) > 1:
                together.append(frozenset(kernel))
                self.groups = groups_of(together)
        inside = self.given.inside - dropped
        return replace(self.given, together=tuple(together), inside=inside)

    def _followed(self, value: str, own: Iterable[str]) -> set[str]:
        """Return the kernel of a value with its readers, if they go on element by element in it.

        Empty where a value has no kernel with others, or no reader can be computed there.
        """
        kernel = set(self.groups.get(value, ()))
        if len(kernel) < 2:
            return set()
        size, before = prod(self.program.nodes[value].shape), set(kernel)
        for reader in own:
            path = [reader]
            while path[-1] in self.readers:
                path.append(self.readers[path[-1]][0])
            nodes = [self.program.nodes[name] for name in path]
            along = all(prod(node.shape) == size and not _reduces(node) for node in nodes)
            if along and self._may_join({*kernel, path[-1]}):
                kernel.add(path[-1])
        return kernel - before and kernel

    @property
    def live(self) -> set[str]:
        """Return the values on which results depend."""
        if self._live is None:
            self._live = set()
            stack = list(self.program.outputs)
            while stack:
                name = stack.pop()
                if name not in self._live:
                    self._live.add(name)
                    stack += reads(self.program.nodes[name])
        return self._live

    def has_sum(self, value: str) -> bool:
        """Return whether a sum is added up to compute a value, in its kernel."""
        inner, stack = {value}, [value]
        while stack:
            name = stack.pop()
            if has_sum(self.program.nodes[name]):
                return True
            for read in reads(self.program.nodes[name]):
                if read not in inner and name in self.readers.get(read, ()):
                    inner.add(read)
                    stack.append(read)
        return False

    def _top(self, reader: str) -> str:
        """Return the value that the kernel of a reader returns."""
        while reader in self.readers:
            reader = self.readers[reader][0]
        return reader

    def _may_join(self, names: set[str]) -> bool:
        """Return whether one kernel may compute some values: none waits for another kernel."""
        kernel = set(names).union(*(self.groups.get(name, ()) for name in names))
        stack = list(kernel)
        while stack:
            name = stack.pop()
            for read in reads(self.program.nodes[name]):
                if read not in kernel and name in self.readers.get(read, ()):
                    kernel.add(read)
                    stack.append(read)
        outside: set[str] = set()
        stack = [n for name in kernel for n in self.program.consumers(name) if n not in kernel]
        while stack:
            name = stack.pop()
            if name in outside:
                continue
            outside.add(name)
            for user in self.program.consumers(name):
                if user in kernel:
                    return False
                stack.append(user)
        return True


class _Splitting:
    """A program whose split sums are taken apart, one value after the other."""

    def __init__(self, program: Definitions, placement: Placement) -> None:
        self.program, self.placement = program, placement
        self.names: set[str] = set()

    def take(self, name: str) -> None:
        """Take the sums of a value apart."""
        for number, total in enumerate(split_sums(self.program.nodes[name])):
            self._apply(name, apart(name, self.program.nodes[name], total, number))

    def _apply(self, name: str, found: Apart) -> None:
        program, placement = self.program, self.placement
        groups = groups_of(placement.together)
        tile = tile_of(program, placement, name)
        first, *others = found.new
        after = self._after(name, groups)
        merge = {*others} or {name}
        if found.rest is None:
            merge = set()
        if found.elementwise:
            merge |= self._followers(name, after)
        later = after - merge if name in merge or found.rest is None else {name, *after}

        def stage(value: str) -> int:
            return 1 if value in merge else 2 if value in later else 0

        inside = set()
        for value, reader in placement.inside:
            if reader == name:
                inside.add((value, first))
            if found.rest is None and value == name:
                continue
            if (stage(value), stage(reader)) in ((0, 0), (1, 1), (2, 2), (0, 1), (0, 2)):
                inside.add((value, reader))
        together = []
        for group in placement.together:
            parts: list[set[str]] = [set(), set(), set()]
            for value in group:
                parts[stage(value)].add(value)
            if name in group and found.rest is not None:
                parts[0].add(first)
            together += [frozenset(part) for part in parts if part]
        tiles = {n: t for n, t in placement.tiles.items() if n not in merge}
        tiles.pop(first, None)
        if tile != WHOLE:
            tiles[first] = tile
        adding = {found.adding} if found.adding else set()
        edits = {**found.new} if found.rest is None else {**found.new, name: found.rest}
        self.names |= edits.keys()
        self.program = _ordered(program.edited(edits), name, found.new)
        self.placement = replace(
            placement,
            tiles=tiles,
            inside=frozenset(inside),
            together=tuple(together),
            adding=placement.adding | adding,
        )

    def _after(self, name: str, groups: Mapping[str, set[str]]) -> set[str]:
        """Return the values of the same kernel that depend on one."""
        out: set[str] = set()
        stack = [name]
        while stack:
            value = stack.pop()
            group = groups.get(value, ())
            for reader in self.program.consumers(value):
                together = reader in group or (value, reader) in self.placement.inside
                if together and reader not in out:
                    out.add(reader)
                    stack.append(reader)
        return out - {name}

    def _followers(self, name: str, after: set[str]) -> set[str]:
        """Return those that follow a value element by element."""
        out: set[str] = set()
        size = prod(self.program.nodes[name].shape)
        for value in [n for n in self.program.nodes if n in after] if after else ():
            node = self.program.nodes[value]
            waits = any(read in after and read not in out for read in reads(node))
            if prod(node.shape) == size and not _reduces(node) and not waits:
                out.add(value)
        return out


def _ordered(program: Definitions, name: str, new: Iterable[str]) -> Definitions:
    """Return a program with new values in front of the one that reads them."""
    added = [n for n in new if n != name]
    nodes: dict[str, Node] = {}
    for other, node in program.nodes.items():
        if other == name:
            nodes.update((n, program.nodes[n]) for n in added)
        if other not in added:
            nodes[other] = node
    return replace(program, nodes=nodes)


def tile_of(program: Definitions, placement: Placement, name: str) -> Tile:
    """Return the tile of the kernel that computes a value, before its sums are taken apart."""
    groups = groups_of(placement.together)
    inside = dict(sorted(placement.inside, reverse=True))
    seen = {name}
    while name not in groups and name in inside and inside[name] not in seen:
        name = inside[name]
        seen.add(name)
    group = groups.get(name, {name})
    members = [name] if len(group) == 1 else [n for n in program.nodes if n in group]
    return Expanded(program, placement).tile(members)


def _without_uniform(program: Definitions, placement: Placement) -> Placement:
    """Return the placement with values that are the same for all tiles in launches of their own."""
    together: list[frozenset[str]] = []
    tiles = dict(placement.tiles)
    for group in placement.together:
        parts = [group]
        known = [name for name in sorted(group) if name in program.nodes] if len(group) > 1 else []
        for name in known:
            if not is_uniform(program.nodes[name]):
                continue
            members = [n for n in program.nodes if n in group]
            tile = Expanded(program, placement).tile(members)
            if any(is_cut(program.nodes[other], tile) for other in members):
                tiles.pop(name, None)
                parts = [p for part in parts for p in _around(program, part, name)]
        together += parts
    return replace(placement, together=tuple(together), tiles=tiles)


def _around(program: Definitions, group: frozenset[str], name: str) -> list[frozenset[str]]:
    """Return a group in three: what a value of it depends on, the value, and all others."""
    if name not in group:
        return [group]
    below: set[str] = set()
    stack = [name]
    while stack:
        for read in reads(program.nodes[stack.pop()]):
            if read in group and read not in below:
                below.add(read)
                stack.append(read)
    parts = (below, {name}, group - below - {name})
    return [frozenset(part) for part in parts if part]


@lru_cache(maxsize=1 << 14)
def is_uniform(node: Node) -> bool:
    """Return whether a value is one extreme or sum, whatever its operands hold."""
    if not _reduces(node):
        return False
    needs = [need for need in needs_of(node) if isinstance(need.node, Input)]
    return bool(needs) and all(loop.place > 0 for need in needs for loop in need.loops)


def is_cut(node: Node, tile: Tile) -> bool:
    """Return whether several tiles compute a value."""
    loops = (Loop(axis - len(node.shape), size) for axis, size in enumerate(node.shape))
    return any(extent(loop, tile) < loop.length for loop in loops)


def _reduces(node: Node) -> bool:
    return any(isinstance(n, Reduce) for n in topological([node]))
