"""Recognise a tree as a schedule: `split(size=128, inner=lanes(8), outer=pairwise(1))`.

A set of elements is a cluster if some step adds exactly these; a key for each set, the sum of
random words of its elements, makes that a look-up. Pieces or lanes that are all clusters suggest a
level; the elements are then the pieces, and so on inside and outside. A suggestion counts if
the schedule has every step of the tree and no other.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from typing import Final

import numpy as np
from numpy.typing import NDArray

from lastbit.levels import Level
from lastbit.order.tree import OrderTree, cluster_keys
from lastbit.schedule import Fused, Lanes, Pairwise, Schedule, Seq, Split, fold

Keys = NDArray[np.uint64]
_WORD = (1 << 64) - 1
DEPTH: Final = 10  # levels of lanes and pieces inside each other
TRIES: Final = 400  # suggestions that are followed in all
ALIKE: Final = 3  # runs of so many elements have the same tree by halves and one by one


def recognise(tree: OrderTree, machine: str = "?") -> Schedule | None:
    """Return a schedule that has this tree, or None where no form fits.

    Args:
        tree: the tree.
        machine: what steps of several terms are called, such as `hopper/16`.
    """
    if not len(tree):
        return Seq()
    reader = _Reader(tree, machine)
    root = tree.leaves + len(tree) - 1
    items = list(range(tree.leaves))
    for depth in range(DEPTH + 1):
        found = next(reader.levels(items, root, depth), None)
        if found is not None:
            return found
    return None


class _Reader:
    """Finds levels; items are the nodes that a level adds, in order."""

    def __init__(self, tree: OrderTree, machine: str) -> None:
        self.leaves, self.steps, self.machine = tree.leaves, tree.steps, machine
        self.keys = cluster_keys(tree)
        self.node = {key: v for v, key in enumerate(self.keys)}
        self.tries = TRIES

    def levels(self, items: Sequence[int], root: int, depth: int) -> Iterator[Level]:
        """Yield levels that add the items, with at most so many levels of pieces; simple first."""
        if len(items) == 1:
            if root == items[0]:
                yield Seq()
            return
        for read in (self._seq, self._fused):
            found = read(items, root)
            if found is not None:
                yield found
                return
        found = self._pairwise(items, root)
        if found is not None:
            yield found
        if depth:
            yield from self._composed(items, root, depth)

    def _seq(self, items: Sequence[int], root: int) -> Level | None:
        return Seq() if self._is_run(items, root) else None

    def _is_run(self, items: Sequence[int], node: int) -> bool:
        """Say whether a node adds the items left to right."""
        for item in reversed(items[1:]):
            kids = self.steps[node - self.leaves] if node >= self.leaves else ()
            if len(kids) != 2 or item not in kids:
                return False
            node = kids[0] if kids[1] == item else kids[1]
        return node == items[0]

    def _fused(self, items: Sequence[int], root: int) -> Level | None:
        """Recognise steps that each add the sum so far and the next k items."""
        place = {item: i for i, item in enumerate(items)}
        counts: list[int] = []
        node, end = root, len(items)
        while True:
            kids = self.steps[node - self.leaves] if node >= self.leaves else ()
            own = sorted(place[kid] for kid in kids if kid in place)
            before = [kid for kid in kids if kid not in place]
            if not own or own != list(range(end - len(own), end)) or len(before) > 1:
                return None
            counts.append(len(own))
            end -= len(own)
            if not before:
                break
            node = before[0]
        k = counts[-1]
        if end or k < 2 or counts[0] > k or any(count != k for count in counts[1:]):
            return None
        if len(counts) == 1 and k == 2:
            return None
        return Fused(k, self.machine)

    def _pairwise(self, items: Sequence[int], root: int) -> Level | None:
        """Recognise halves, down to runs."""
        sums = _sums([self.keys[item] for item in items])
        longest, shortest = 1, len(items) + 1
        todo = [(0, len(items), root)]
        while todo:
            low, high, node = todo.pop()
            middle = low - (low - high) // 2
            if self._is_run(items[low:high], node):
                longest = max(longest, high - low)
                continue
            kids = self.steps[node - self.leaves] if node >= self.leaves else ()
            halves = [self.node.get(_part(sums, *p)) for p in ((low, middle), (middle, high))]
            if len(kids) != 2 or set(halves) != set(kids):
                return None
            shortest = min(shortest, high - low)
            todo += [(low, middle, halves[0]), (middle, high, halves[1])]  # type: ignore[list-item]
        if longest >= shortest:
            return None
        power = 1 << (longest - 1).bit_length()
        return Pairwise(1 if longest <= ALIKE else power if power < shortest else longest)

    def _composed(self, items: Sequence[int], root: int, depth: int) -> Iterator[Level]:
        for pieces, make in self._suggestions(items):
            nodes = self._nodes(items, pieces)
            if nodes is None:
                continue
            for inner in self.levels([items[i] for i in pieces[0]], nodes[0], depth - 1):
                for outer in self.levels(nodes, root, depth - 1):
                    self.tries -= 1
                    if self.tries <= 0:
                        return
                    found = make(inner, outer)
                    if self._same(found, items, root):
                        yield found

    def _suggestions(
        self, items: Sequence[int]
    ) -> Iterator[tuple[list[range], Callable[[Level, Level], Level]]]:
        """Yield pieces whose first one is a cluster, and what makes a level of them."""
        keys = np.array([self.keys[item] for item in items], np.uint64)
        count = len(items)
        for k in range(count - 1, 1, -1):
            if int(keys[::k].sum()) in self.node:
                yield [range(i, count, k) for i in range(k)], partial(Lanes, k)
        sums = _sums(keys.tolist())
        for size in range(2, count):
            second = _part(sums, size, min(2 * size, count))
            if int(sums[size]) in self.node and second in self.node:
                pieces = [range(i, min(i + size, count)) for i in range(0, count, size)]
                yield pieces, partial(_split, None, size)
                if -(-count // len(pieces)) == size:
                    yield pieces, partial(_split, len(pieces), None)

    def _nodes(self, items: Sequence[int], pieces: Sequence[range]) -> list[int] | None:
        """Return the nodes that add each piece, or None if one of them is no cluster."""
        found = []
        for piece in pieces:
            key = sum(self.keys[items[i]] for i in piece) & _WORD
            if key not in self.node:
                return None
            found.append(self.node[key])
        return found

    def _same(self, schedule: Schedule, items: Sequence[int], root: int) -> bool:
        """Say whether a schedule over the items has the steps between them and the root."""
        algebra = _Clusters(self, items)
        total = fold(schedule, len(items), "f32", algebra)
        return (
            algebra.known
            and total == self.keys[root]
            and algebra.steps == self._between(items, root)
        )

    def _between(self, items: Sequence[int], root: int) -> int:
        ends, count, todo = set(items), 0, [root]
        while todo:
            node = todo.pop()
            if node not in ends:
                count += 1
                todo += self.steps[node - self.leaves]
        return count


def _split(n: int | None, size: int | None, inner: Level, outer: Level) -> Level:
    return Split(n, size=size, inner=inner, outer=outer)


class _Clusters:
    """An algebra of `fold` that looks clusters up; a value is a key, and zero is 0."""

    def __init__(self, reader: _Reader, items: Sequence[int]) -> None:
        self.reader, self.items = reader, items
        self.steps, self.known = 0, True

    def zero(self, fmt: str) -> int:
        return 0

    def leaf(self, i: int) -> int:
        return self.reader.keys[self.items[i]]

    def add(self, a: int, b: int, fmt: str) -> int:
        return self.fused(a, [b], "", fmt)

    def fused(self, acc: int, terms: list[int], machine: str, fmt: str) -> int:
        key = (acc + sum(terms)) & _WORD
        if sum(1 for value in (acc, *terms) if value) > 1:
            self.steps += 1
            self.known &= key in self.reader.node
        return key

    def convert(self, value: int, fmt: str) -> int:
        return value

    def any_order(self, values: list[int], fmt: str) -> int:
        raise AssertionError("no level that is recognised adds in any order")


def _sums(keys: Sequence[int]) -> Keys:
    """Return the keys of the first 0, 1, 2 ... items together."""
    return np.concatenate((np.zeros(1, np.uint64), np.cumsum(np.array(keys, np.uint64))))


def _part(sums: Keys, low: int, high: int) -> int:
    return (int(sums[high]) - int(sums[low])) & _WORD


def renamed(schedule: Level, machine: str) -> Level:
    """Return a schedule whose fused steps are those of another machine."""
    match schedule:
        case Fused():
            return replace(schedule, machine=machine)
        case Lanes(inner=inner, outer=outer) | Split(inner=inner, outer=outer):
            inner, outer = renamed(inner, machine), renamed(outer, machine)
            return replace(schedule, inner=inner, outer=outer)
    return schedule
