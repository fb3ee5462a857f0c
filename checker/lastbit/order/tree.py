"""Summation trees as revealed: which values every step adds, and nothing else.

A step has two children or more (a matrix unit adds several terms at once). Children have no order:
addition is commutative. Zeros that a loop starts from cannot be seen. So a tree is the set of its
clusters, the elements under each step; equal trees have equal canonical forms and equal hashes.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from lastbit.explicit_tree import Nested, Tree
from lastbit.schedule import Schedule, fold

Ints = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class OrderTree:
    """A summation tree over elements 0 to `leaves` - 1.

    Attributes:
        leaves: the number of elements.
        kids: the children of all steps, one step after the other: i below `leaves` is element i,
            and `leaves` + j is the result of step j, which stands before its use. The last step
            is the root.
        ends: for each step, where its children end in `kids`.
    """

    leaves: int
    kids: Ints
    ends: Ints

    def __len__(self) -> int:
        return len(self.ends)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, OrderTree) and self.hash == other.hash

    def __hash__(self) -> int:
        return int(self.hash, 16)

    @cached_property
    def steps(self) -> list[tuple[int, ...]]:
        """The children of each step."""
        flat, start, found = self.kids.tolist(), 0, []
        for end in self.ends.tolist():
            found.append(tuple(flat[start:end]))
            start = end
        return found

    @cached_property
    def pairs(self) -> tuple[list[int], list[int]]:
        """The first and the second child of each step, where all have two."""
        return self.kids[::2].tolist(), self.kids[1::2].tolist()

    @property
    def turned_pairs(self) -> tuple[Iterator[int], Iterator[int]]:
        """The children of each step, the root first, where all have two."""
        return reversed(self.pairs[0]), reversed(self.pairs[1])

    @cached_property
    def canonical(self) -> OrderTree:
        """The same tree: children by their least element, and steps depth first."""
        n, steps = self.leaves, self.steps
        least = list(range(n))
        ordered = []
        for step in steps:
            kids = sorted(step, key=least.__getitem__)
            least.append(least[kids[0]])
            ordered.append(kids)
        visited: list[int] = []
        todo = [n + len(steps) - 1] if steps else []
        while todo:
            node = todo.pop()
            visited.append(node)
            todo += [kid for kid in ordered[node - n] if kid >= n]
        # The root came first and last children before first ones, so the reverse is depth first.
        visited.reverse()
        new = list(range(n)) + [0] * len(steps)
        for position, node in enumerate(visited):
            new[node] = n + position
        return tree_of_steps(n, [[new[kid] for kid in ordered[node - n]] for node in visited])

    @cached_property
    def hash(self) -> str:
        """A hash of the canonical form, 32 hexadecimal digits."""
        form = self.canonical
        digest = hashlib.blake2b(digest_size=16)
        digest.update(b"%d;" % form.leaves)
        digest.update(form.ends.astype("<i8").tobytes())
        digest.update(form.kids.astype("<i8").tobytes())
        return digest.hexdigest()

    @cached_property
    def heights(self) -> list[int]:
        """For elements and then steps, the most steps from there down to an element."""
        found = [0] * self.leaves
        if self.binary:  # the most common case, and the largest trees
            for a, b in zip(*self.pairs, strict=True):
                x, y = found[a], found[b]
                found.append((x if x > y else y) + 1)
            return found
        for step in self.steps:
            found.append(1 + max(found[kid] for kid in step))
        return found

    @cached_property
    def sizes(self) -> list[int]:
        """For elements and then steps, how many elements are under each."""
        found = [1] * self.leaves
        if self.binary:
            for a, b in zip(*self.pairs, strict=True):
                found.append(found[a] + found[b])
            return found
        for step in self.steps:
            found.append(sum(found[kid] for kid in step))
        return found

    @property
    def depth(self) -> int:
        """The most steps that an element goes through."""
        return self.heights[-1] if len(self) else 0

    @property
    def widths(self) -> dict[int, int]:
        """How many steps there are of each number of children."""
        sizes, counts = np.unique(np.diff(self.ends, prepend=0), return_counts=True)
        return dict(zip(sizes.tolist(), counts.tolist(), strict=True))

    @property
    def binary(self) -> bool:
        """Whether every step adds two values."""
        return len(self.kids) == 2 * len(self.ends)

    def elements(self, node: int) -> list[int]:
        """Return the elements under a node, sorted."""
        found, todo = [], [node]
        while todo:
            node = todo.pop()
            if node < self.leaves:
                found.append(node)
            else:
                todo += self.steps[node - self.leaves]
        return sorted(found)

    @cached_property
    def parents(self) -> Ints:
        """The step that each element and each step's result goes into; the root is its own."""
        total = self.leaves + len(self)
        found = np.full(total, total - 1)
        counts = np.diff(self.ends, prepend=0)
        found[self.kids] = self.leaves + np.repeat(np.arange(len(self)), counts)
        return found

    def under(self, nodes: Ints) -> NDArray[np.bool_]:
        """Say for each of some nodes, a row each, which elements and steps lie under it."""
        total = self.leaves + len(self)
        inside: NDArray[np.bool_] = np.arange(total) == nodes[:, None]
        above = self.parents
        while True:  # twice as far up each time
            inside |= inside[:, above]
            further = above[above]
            if np.array_equal(further, above):
                return inside
            above = further

    def explicit(self, acc: str | None = None) -> Tree:
        """Return the tree as a level of a schedule; every step must add two values."""
        form = self.canonical
        return Tree(form.leaves, tuple((a, b) for a, b in form.steps), acc=acc)


def tree_of_steps(leaves: int, steps: Iterable[Sequence[int]]) -> OrderTree:
    """Return the tree that has these steps."""
    flat: list[int] = []
    ends: list[int] = []
    for step in steps:
        flat += step
        ends.append(len(flat))
    return OrderTree(leaves, np.array(flat, np.int64), np.array(ends, np.int64))


class _Steps:
    """An algebra of `fold` that notes the steps; a value is a node, or -1 for zero."""

    def __init__(self, leaves: int) -> None:
        self.leaves = leaves
        self.steps: list[list[int]] = []

    def zero(self, fmt: str) -> int:
        return -1

    def leaf(self, i: int) -> int:
        return i

    def _step(self, values: Sequence[int]) -> int:
        kids = [value for value in values if value >= 0]
        if len(kids) < 2:
            return kids[0] if kids else -1
        self.steps.append(kids)
        return self.leaves + len(self.steps) - 1

    def add(self, a: int, b: int, fmt: str) -> int:
        return self._step((a, b))

    def fused(self, acc: int, terms: list[int], machine: str, fmt: str) -> int:
        return self._step([acc, *terms])

    def convert(self, value: int, fmt: str) -> int:
        return value

    def any_order(self, values: list[int], fmt: str) -> int:
        raise ValueError("a sum in any order has no tree")


def tree_of_schedule(schedule: Schedule, n: int) -> OrderTree:
    """Return the summation tree of a bound schedule over n elements; zeros and formats are gone.

    Raises:
        ValueError: the schedule adds in any order.
        ScheduleError: a parameter is not bound, or an explicit tree has another size.
    """
    algebra = _Steps(n)
    fold(schedule, n, "f32", algebra)
    return tree_of_steps(n, algebra.steps)


def nested(tree: OrderTree) -> Nested:
    """Return the canonical tree as nested tuples, for trees that are not deep."""
    form = tree.canonical
    values: list[Nested] = list(range(form.leaves))
    for step in form.steps:
        values.append(tuple(values[kid] for kid in step))
    return values[-1]


def cluster_keys(tree: OrderTree) -> list[int]:
    """Return a key for the elements under each element and step; equal sets have equal keys."""
    keys = [_mixed(i) for i in range(tree.leaves)]
    for step in tree.steps:
        keys.append(sum(keys[kid] for kid in step) & _WORD)
    return keys


_WORD = (1 << 64) - 1


def _mixed(i: int) -> int:
    """Return 64 bits that look random (splitmix64)."""
    z = (i + 1) * 0x9E3779B97F4A7C15 & _WORD
    z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9 & _WORD
    z = (z ^ z >> 27) * 0x94D049BB133111EB & _WORD
    return z ^ z >> 31


def difference(first: OrderTree, second: OrderTree) -> tuple[list[list[int]], list[list[int]]]:
    """Return the first place where two trees of the same elements differ.

    Returns:
        what a step of the first tree adds, as sets of elements which the second has too, and what
        the second tree adds one of these sets to; two empty lists where the trees are equal.
    """
    for a, b, turned in ((first, second, False), (second, first, True)):
        a, b = a.canonical, b.canonical
        keys, known = cluster_keys(a), {key: v for v, key in enumerate(cluster_keys(b))}
        for position, step in enumerate(a.steps):
            if keys[a.leaves + position] in known:
                continue
            into = int(b.parents[known[keys[step[0]]]])
            mine = [a.elements(kid) for kid in step]
            its = [b.elements(kid) for kid in b.steps[into - b.leaves]]
            return (its, mine) if turned else (mine, its)
    return [], []


def runs(elements: Sequence[int]) -> Iterator[tuple[int, int]]:
    """Yield the first and last of each run of consecutive elements."""
    start = 0
    for i in range(1, len(elements) + 1):
        if i == len(elements) or elements[i] != elements[i - 1] + 1:
            yield elements[start], elements[i - 1]
            start = i
