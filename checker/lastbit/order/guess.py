"""Guess a regular tree from few probes; `lastbit.order.proof` shows whether the guess is right.

The first element is the pivot, and `lastbit.order.spine` guesses which groups it meets one after
the other. A group then looks like one that is known, element for element, or is guessed in its
turn.
"""

from __future__ import annotations

import numpy as np

from lastbit.order.findings import MisfitError
from lastbit.order.search import Cluster, Search
from lastbit.order.shapes import SINGLE, Builder, Shape
from lastbit.order.spine import Spine
from lastbit.order.tree import Ints, OrderTree

TRIES = 4  # elements that confirm a shape
LEAST = 128, 512  # elements that a guess may ask about, one by one and in batches
COMPARED = 256  # elements of the largest shape that a group is compared with


class Guess:
    """One guess.

    Args:
        search: asks for sizes.
    """

    def __init__(self, search: Search) -> None:
        self.search = search
        self.random = search.prober.random
        self.known: dict[int, list[Shape]] = {}
        self._left = max(LEAST[search.prober.batched], search.prober.n)

    def tree(self) -> OrderTree:
        """Return the guessed tree.

        Raises:
            MisfitError: the sizes that were asked for fit no regular tree.
        """
        n = self.search.prober.n
        return self._shape(np.arange(n), -1).tree()

    def outside(self, cluster: Cluster, others: Ints) -> Ints:
        """Return what the search says of some elements, of which it may ask so many.

        Raises:
            MisfitError: a search without a guess would ask for no more.
        """
        self._left -= len(others)
        if self._left < 0:
            raise MisfitError("the order has too little regularity for a guess")
        return self.search.outside(cluster, others)

    def _shape(self, members: Ints, witness: int) -> Shape:
        size = len(members)
        if size == 1:
            return SINGLE
        spine = Spine(self.outside, self.random, members, witness)
        builder = Builder(size)
        node, inside = 0, 1
        made: list[tuple[int, int, int, Ints]] = []
        for groups in spine.runs():
            shape = self._group(members[groups[0]], int(members[0]), builder, made)
            before = builder.count
            node = builder.chain(node, shape, groups)
            width = (builder.count - before) // len(groups)
            made.append((inside, before, width, groups))
            inside += groups.size
        roots = [node]
        if spine.outer is not None:
            shape = self._shape(members[spine.outer], witness)
            roots += builder.copy(shape, spine.outer)
        whole = builder.shape(roots)
        if len(roots) == 1:
            self.known.setdefault(size, []).append(whole)
        return whole

    def _group(
        self, members: Ints, witness: int, builder: Builder, made: list[tuple[int, int, int, Ints]]
    ) -> Shape:
        """Return the shape of a group, that of a known one of its size where it is a cluster."""
        size = len(members)
        if size == 1:
            return SINGLE
        cluster = Cluster(members, witness)
        if self.outside(cluster, members[-1:])[0]:  # it is a cluster of its own
            shapes = self.known.get(size, [])
            found = None if shapes else _cluster(size, builder, made)
            shapes = shapes if found is None else [found]
            for shape in shapes:
                if self._alike(cluster, shape):
                    self.known[size] = shapes
                    return shape
        return self._shape(members, witness)

    def _alike(self, cluster: Cluster, shape: Shape) -> bool:
        """Say whether the pivot of a cluster meets some elements as it does in a shape."""
        size = shape.size
        if not 2 < size <= COMPARED:
            return True
        ranks = np.unique(np.append(self.random.integers(1, size, TRIES), (1, size - 1)))
        outside = self.outside(cluster, cluster.members[ranks])
        return bool((size - (outside - 1) == shape.sizes[ranks]).all())


def _cluster(size: int, builder: Builder, made: list[tuple[int, int, int, Ints]]) -> Shape | None:
    """Return the cluster of a size that a pivot has formed so far, if there is one."""
    ranks = [np.zeros(1, np.int64)]
    for inside, before, width, groups in made:
        count, rest = divmod(size - inside, groups.shape[1])
        if not rest and 0 < count <= len(groups):
            ranks.append(groups[:count].ravel())
            return builder.first(before + count * width, np.sort(np.concatenate(ranks)))
        ranks.append(groups.ravel())
    return None
