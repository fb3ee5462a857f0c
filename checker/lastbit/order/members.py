"""Find a small tree with about one probe for each of its steps.

M at one element and -M at another make every unit vanish that is added before the two meet. Where
there are few elements, every unit gets a digit of its own, so that one result names all elements
that are outside the cluster in which the two meet. Two elements of different parts of a known
cluster are asked about: they meet in a new cluster inside it, or at its last step.
"""

from __future__ import annotations

from collections import Counter
from itertools import combinations

from lastbit.order.findings import MisfitError
from lastbit.order.probe import Prober
from lastbit.order.tree import OrderTree, tree_of_steps
from lastbit.order.units import Units
from lastbit.round_array import Codes

LEAST = 3  # elements that leave something to ask


class Known:
    """A cluster that is known, and its largest known parts.

    Attributes:
        element: the smallest of its elements, which stands for it.
        parts: its largest known parts; an element has none.
        met: pairs of the elements of parts that are known to meet at its last step.
    """

    def __init__(self, parts: list[Known], element: int) -> None:
        self.parts, self.element = parts, element
        self.met: set[tuple[int, int]] = set()

    def next_pair(self, scores: Counter[int]) -> tuple[Known, Known] | None:
        """Return two parts that may meet inside, or None if all meet at the last step.

        Where each of two parts meets a third one at the last step, they meet inside unless the
        step has several terms. Elsewhere what is as far apart as others that met inside comes
        first, then neighbours.

        Args:
            scores: how often elements so far apart met inside, less how often they did not.
        """
        if len(self.parts) < LEAST:
            return None
        above: dict[int, set[int]] = {part.element: set() for part in self.parts}
        for i, j in self.met:
            if i in above and j in above:
                above[i].add(j)
                above[j].add(i)
        best: tuple[tuple[bool, int, int], Known, Known] | None = None
        for a, b in combinations(self.parts, 2):
            if b.element in above[a.element]:
                continue
            sure = bool(above[a.element] & above[b.element])
            apart = b.element - a.element
            rank = (not sure, -scores[apart], apart)
            if best is None or rank < best[0]:
                best = rank, a, b
        return (best[1], best[2]) if best else None


def small_tree(prober: Prober, units: Units) -> OrderTree | None:
    """Return the tree; None if it has too many elements for this way.

    Raises:
        MisfitError: the clusters fit no tree.
    """
    n = prober.n
    if n < LEAST or n - 2 > units.room:
        return None
    whole = Known([Known([], i) for i in range(n)], 0)
    todo = [whole]
    scores: Counter[int] = Counter()
    while todo:
        pair = todo[-1].next_pair(scores)
        if pair is None:
            todo.pop()
            continue
        found = _inside(prober, units, todo[-1], pair)
        scores[pair[1].element - pair[0].element] += 1 if found is not None else -1
        if found is not None:
            todo.append(found)
    steps: list[list[int]] = []
    _write(whole, n, steps)
    return tree_of_steps(n, steps)


def _inside(
    prober: Prober, units: Units, cluster: Known, pair: tuple[Known, Known]
) -> Known | None:
    """Return the new cluster in which two parts meet, or None where that is the whole."""
    a, b = pair
    others = [part for part in cluster.parts if part not in pair]

    def fill(block: Codes, start: int, stop: int) -> None:
        block[0, a.element] = units.code(units.top)
        block[0, b.element] = units.code(units.top, negative=True)
        for digit, part in enumerate(others):
            block[0, part.element] = units.code(units.low + digit)

    seen = int(units.counts(prober.run(1, fill))[0])
    if seen >> len(others):
        raise MisfitError("a sum of M, -M and units has digits that no unit has")
    outside = [part for digit, part in enumerate(others) if seen >> digit & 1]
    if not outside:
        cluster.met.add((a.element, b.element))
        return None
    inside = [part for part in cluster.parts if part not in outside]
    new = Known(inside, inside[0].element)
    new.met.add((a.element, b.element))
    # What was known to meet at the last step of the whole cannot meet inside.
    if any(x.element in _met(cluster, y) for x, y in combinations(inside, 2)):
        raise MisfitError(f"elements {a.element} and {b.element} meet in clusters that overlap")
    cluster.parts = sorted([*outside, new], key=lambda part: part.element)
    moved = {part.element: new.element for part in inside}
    cluster.met = {
        (min(pair), max(pair))
        for pair in ((moved.get(x, x), moved.get(y, y)) for x, y in cluster.met)
    }
    return new


def _met(cluster: Known, part: Known) -> set[int]:
    """Return the elements of the parts that meet one at the last step of a cluster."""
    pairs = [pair for pair in cluster.met if part.element in pair]
    return {element for pair in pairs for element in pair} - {part.element}


def _write(cluster: Known, n: int, steps: list[list[int]]) -> int:
    """Add the steps of a cluster and return its node."""
    if not cluster.parts:
        return cluster.element
    kids = [_write(part, n, steps) for part in cluster.parts]
    steps.append(kids)
    return n + len(steps) - 1
