"""Orders that many libraries add in, told by the bits of vectors that were summed anyway.

No call is made here. A familiar order that gives all these bits is only a guess, for
`lastbit.order.proof` to look at; but it is one that cost nothing.

Sources: `pairwise_sum` of numpy (numpy/_core/src/umath/loops_utils.h.src), `cascade_sum` of torch
(aten/src/ATen/native/cpu/SumKernel.cpp).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from lastbit.interpret.intervals import Floats
from lastbit.order.tree import Ints, OrderTree

Sums = NDArray[np.floating[Any]]
WIDTHS: Final = 2, 4, 8, 16, 32, 64
BLOCK, UNROLLED = 128, 8  # of numpy's sums
HORIZONTAL: Final = 4  # lanes of the smallest vector register
CASCADE: Final = 16  # terms of each level of torch's sums


class Growing:
    """Sums of some vectors, and the tree of their steps, while an order is followed.

    Nodes are arrays of any shape; `values` of a node stand in the same place, after the axis of
    the vectors.

    Args:
        vectors: numbers, a row each.
    """

    def __init__(self, vectors: Sums) -> None:
        self.leaves = vectors.shape[1]
        self.count = 0
        self._kids: list[Ints] = []

    def add(self, a: Part, b: Part) -> Part:
        """Add two parts of equal shape, node by node."""
        new = self.leaves + self.count + np.arange(a.nodes.size).reshape(a.nodes.shape)
        self._kids.append(np.stack((a.nodes.ravel(), b.nodes.ravel()), 1).ravel())
        self.count += a.nodes.size
        return Part(self, new, a.values + b.values)

    def chain(self, part: Part) -> Part:
        """Add the first axis of a part, one after the other."""
        nodes, first = part.nodes, self.leaves + self.count
        if len(nodes) == 1:
            return part[0]
        new = first + np.arange(nodes[1:].size).reshape(nodes[1:].shape)
        before = np.concatenate((nodes[:1], new[:-1]))
        self._kids.append(np.stack((before.ravel(), nodes[1:].ravel()), 1).ravel())
        self.count += new.size
        return Part(self, new[-1], np.add.accumulate(part.values, axis=1)[:, -1])

    def halves(self, part: Part) -> Part:
        """Add the first axis of a part pair by pair, as often as it takes; a power of two."""
        while len(part.nodes) > 1:
            part = self.add(part[::2], part[1::2])
        return part[0]

    def folds(self, part: Part) -> Part:
        """Add the second half of the first axis to the first, as often as it takes."""
        while len(part.nodes) > 1:
            half = len(part.nodes) // 2
            part = self.add(part[:half], part[half:])
        return part[0]

    def tree(self) -> OrderTree:
        """Return the tree of all steps."""
        kids = np.concatenate(self._kids)
        return OrderTree(self.leaves, kids, np.arange(2, len(kids) + 1, 2))


class Part:
    """Nodes, and their values for each vector."""

    def __init__(self, growing: Growing, nodes: Ints, values: Sums) -> None:
        self.growing, self.nodes, self.values = growing, nodes, values

    def __getitem__(self, index: Any) -> Part:
        whole = (slice(None), *(index if isinstance(index, tuple) else (index,)))
        return Part(self.growing, self.nodes[index], self.values[whole])

    def shaped(self, *shape: int) -> Part:
        """Return the same nodes in another shape."""
        values = self.values.reshape(len(self.values), *shape)
        return Part(self.growing, self.nodes.reshape(shape), values)


Way = Callable[[Growing, Part], Part]


def _lanes(width: int, inner: Way, outer: Way, grow: Growing, part: Part) -> Part:
    """Add every `width`-th element for itself, then the lanes."""
    n = len(part.nodes)
    whole = n - n % width
    found = inner(grow, part[:whole].shaped(whole // width, width))
    if whole < n:
        more = grow.add(found[: n - whole], part[whole:])
        rest = found[n - whole :]
        nodes = np.concatenate((more.nodes, rest.nodes))
        found = Part(grow, nodes, np.concatenate((more.values, rest.values), axis=1))
    return outer(grow, found)


def _blocks(grow: Growing, part: Part) -> Part:
    """Add as numpy does: lanes of 8 in blocks of 128 at most, halves of them above."""
    n = len(part.nodes)
    if n < UNROLLED:
        return grow.chain(part)
    if n > BLOCK:
        count = n // BLOCK
        if n == count * BLOCK and count & (count - 1) == 0:
            lanes = part.shaped(count, BLOCK // UNROLLED, UNROLLED)
            swapped = Part(grow, lanes.nodes.transpose(1, 2, 0), lanes.values.transpose(0, 2, 3, 1))
            return grow.halves(grow.halves(grow.chain(swapped)))
        half = n // 2
        half -= half % UNROLLED
        return grow.add(_blocks(grow, part[:half]), _blocks(grow, part[half:]))
    whole = n - n % UNROLLED
    total = grow.halves(grow.chain(part[:whole].shaped(whole // UNROLLED, UNROLLED)))
    for i in range(whole, n):
        total = grow.add(total, part[i])
    return total


def _cascade(grow: Growing, part: Part) -> Part:
    """Add 16 terms one after the other, then 16 such sums, and so on."""
    while len(part.nodes) > CASCADE and len(part.nodes) % CASCADE == 0:
        rest = part.nodes.shape[1:]
        lanes = part.shaped(len(part.nodes) // CASCADE, CASCADE, *rest)
        swapped = Part(grow, lanes.nodes.swapaxes(0, 1), lanes.values.swapaxes(1, 2))
        part = grow.chain(swapped)
    return grow.chain(part)


def _ways(n: int) -> Iterator[Way]:
    """Yield the familiar orders of so many elements, the most common first."""
    yield Growing.chain
    yield _blocks
    for width in (32, 64):
        if n >= width:
            for lanes in (8, 16):
                outer = partial(_lanes, lanes, Growing.chain, Growing.chain)
                yield partial(_lanes, width, _cascade, outer)
    for width in WIDTHS:
        if n >= 2 * width:
            yield partial(_lanes, width, Growing.chain, Growing.chain)
            yield partial(_lanes, width, Growing.chain, Growing.halves)
            if width > HORIZONTAL:
                halves = partial(_lanes, HORIZONTAL, Growing.chain, Growing.halves)
                yield partial(_lanes, width, Growing.chain, halves)
                yield partial(_lanes, width, Growing.chain, Growing.folds)
    if n & (n - 1) == 0:
        yield Growing.halves


def familiar(vectors: Floats, sums: Floats) -> OrderTree | None:
    """Return the tree of a familiar order with accumulators of binary32 or binary64.

    Args:
        vectors: numbers, a row each.
        sums: what the function gave for them.

    Returns:
        the tree by which all vectors have these sums, bit for bit; None if there is none. Results
        that were rounded to a narrower format are not known here.
    """
    for kind in (np.float32, np.float64):
        terms: Sums = vectors.astype(kind)
        if not np.array_equal(terms, vectors) or not np.array_equal(sums.astype(kind), sums):
            continue
        for way in _ways(vectors.shape[1]):
            grow = Growing(terms)
            with np.errstate(all="ignore"):
                found = way(grow, Part(grow, np.arange(grow.leaves), terms))
            if np.array_equal(found.values.astype(np.float64), sums):
                return grow.tree()
    return None
