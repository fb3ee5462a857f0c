"""Pieces of trees that repeat: build a tree from them, many copies at a time."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from lastbit.order.tree import Ints, OrderTree


@dataclass(frozen=True, eq=False)
class Shape:
    """Steps over some elements, which are named by their rank.

    Attributes:
        size: the number of elements.
        kids: the children of all steps: a rank, or `size` + j for step j.
        ends: where the children of each step end.
        roots: what the steps leave: one node, or several that meet in one step outside.
    """

    size: int
    kids: Ints
    ends: Ints
    roots: Ints

    @cached_property
    def sizes(self) -> Ints:
        """For each rank, the size of the cluster in which rank 0 meets it."""
        tree, n = self.tree(), self.size
        steps, counts = tree.steps, tree.sizes
        met = [0] * len(counts)  # 0 above rank 0
        path = {0}
        for position, step in enumerate(steps):
            if not path.isdisjoint(step):
                path.add(n + position)
        for position in range(len(steps) - 1, -1, -1):
            node = n + position
            for kid in steps[position]:
                met[kid] = met[node] or (0 if kid in path else counts[node])
        return np.array(met[:n])

    def tree(self) -> OrderTree:
        """Return the tree of a shape with one root."""
        return OrderTree(self.size, self.kids, self.ends)


SINGLE = Shape(1, np.zeros(0, np.int64), np.zeros(0, np.int64), np.zeros(1, np.int64))


class Builder:
    """Steps over `size` ranks, while they are found.

    Attributes:
        count: the number of steps so far.
    """

    def __init__(self, size: int) -> None:
        self.size, self.count, self._used = size, 0, 0
        self._kids = np.zeros(2 * size + 2, np.int64)
        self._ends = np.zeros(size + 1, np.int64)

    def chain(self, node: int, shape: Shape, groups: Ints) -> int:
        """Add groups of a shape to a node, one after the other, and return the last sum.

        Args:
            node: what stands before them.
            shape: the shape of each group.
            groups: the ranks of each group, a row each, ascending.
        """
        count, steps = len(groups), len(shape.ends)
        width, length = steps + 1, len(shape.kids) + 1 + len(shape.roots)
        first = self.size + self.count
        steps_at = first + width * np.arange(count)[:, None]
        kids = np.empty((count, length), np.int64)
        kids[:, : len(shape.kids)] = self._placed(shape, shape.kids, groups, steps_at)
        kids[0, len(shape.kids)] = node
        kids[1:, len(shape.kids)] = steps_at[:-1, 0] + steps
        kids[:, len(shape.kids) + 1 :] = self._placed(shape, shape.roots, groups, steps_at)
        ends = np.append(shape.ends, length) + length * np.arange(count)[:, None]
        self._ends[self.count : self.count + count * width] = self._used + ends.ravel()
        self._append(kids.ravel())
        self.count += count * width
        return first + count * width - 1

    def copy(self, shape: Shape, ranks: Ints) -> list[int]:
        """Add the steps of a shape and return its roots."""
        first = self.size + self.count
        at = np.full((1, 1), first)
        self._ends[self.count : self.count + len(shape.ends)] = self._used + shape.ends
        self._append(self._placed(shape, shape.kids, ranks[None], at)[0])
        self.count += len(shape.ends)
        roots: list[int] = self._placed(shape, shape.roots, ranks[None], at)[0].tolist()
        return roots

    def shape(self, roots: list[int]) -> Shape:
        """Return all steps so far."""
        kids, ends = self._kids[: self._used], self._ends[: self.count]
        return Shape(self.size, kids.copy(), ends.copy(), np.array(roots, np.int64))

    def first(self, count: int, ranks: Ints) -> Shape:
        """Return the first steps, the last of which sums some ranks, by their rank among these."""
        used = int(self._ends[count - 1]) if count else 0
        place = np.zeros(self.size, np.int64)
        place[ranks] = np.arange(len(ranks))
        flat = self._kids[:used]
        kids = np.where(
            flat < self.size, place[np.minimum(flat, self.size - 1)], flat - self.size + len(ranks)
        )
        root = np.array([len(ranks) + count - 1 if count else 0])
        return Shape(len(ranks), kids, self._ends[:count].copy(), root)

    def _placed(self, shape: Shape, nodes: Ints, groups: Ints, steps_at: Ints) -> Ints:
        """Return nodes of a shape for every group: ranks of this builder, and its steps."""
        leaf = nodes < shape.size
        ranks = groups[:, np.where(leaf, nodes, 0)]
        return np.where(leaf, ranks, steps_at + (nodes - shape.size))

    def _append(self, kids: Ints) -> None:
        self._kids[self._used : self._used + len(kids)] = kids
        self._used += len(kids)
