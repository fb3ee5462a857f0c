"""Guess which groups of elements one element meets, one after the other, from few sizes.

Where a tree is regular, the groups are blocks of places, equal blocks one after the other, or
lanes that take every k-th place. Blocks and lanes that are summed for themselves are items, of
which groups are made in the same ways.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import numpy as np

from lastbit.order.findings import MisfitError
from lastbit.order.search import Cluster
from lastbit.order.tree import Ints

SMALL: Final = 32  # items whose sizes are all asked for
TRIES: Final = 4  # places that confirm a run
BACK: Final = 2  # blocks that are taken back to look for lanes
WINDOW: Final = 128  # the widest lanes that are looked for beside powers of two
FANNED: Final = 1 << 60  # the size of the step where the witness comes in


class Spine:
    """What the first of some elements, the pivot, meets, innermost first.

    Args:
        ask: says for elements of a cluster how many units stay out of where the pivot meets them.
        random: draws places.
        members: the elements.
        witness: an element outside them, or -1.

    Attributes:
        outer: the ranks that it meets where the witness comes in; None where there are none.
    """

    def __init__(
        self,
        ask: Callable[[Cluster, Ints], Ints],
        random: np.random.Generator,
        members: Ints,
        witness: int,
    ) -> None:
        self.ask, self.random, self.members = ask, random, members
        self.cluster = Cluster(members, witness)
        self.outer: Ints | None = None
        self._known: dict[int, int] = {}

    def runs(self) -> list[Ints]:
        """Return the groups by rank, those of equal size that follow each other as rows of one.

        Raises:
            MisfitError: the sizes fit no tree.
        """
        items = np.arange(len(self.members))[:, None]
        found = self._prefix(items)
        if found is None:
            self.outer = None
            found = self._all(items)
        left_out = 0 if self.outer is None else len(self.outer)
        if sum(groups.size for groups in found) + 1 != len(items) - left_out:
            raise MisfitError("the sizes of some clusters fit no regular tree")
        return _joined(found)

    def _sizes(self, items: Ints, places: Ints) -> Ints:
        """Return how many items are in the cluster where the first meets those at some places.

        Zero where that is no whole number of items.

        Args:
            items: the ranks of each item, a row each.
            places: which items are asked about.
        """
        ranks = items[places, 0].tolist()
        new = [rank for rank in dict.fromkeys(ranks) if rank not in self._known]
        if new:
            outside = self.ask(self.cluster, self.members[new])
            whole = len(self.members)
            if self.cluster.witness >= 0:
                sizes = np.where(outside == 0, FANNED, whole - (outside - 1))
            else:
                sizes = whole - outside
            self._known.update(zip(new, sizes.tolist(), strict=True))
        found = np.array([self._known[rank] for rank in ranks], np.int64)
        weight = items.shape[1]
        return np.where(found == FANNED, found, np.where(found % weight, 0, found // weight))

    def _all(self, items: Ints) -> list[Ints]:
        """Return the groups, after asking for every size."""
        places = np.arange(1, len(items))
        sizes = self._sizes(items, places)
        if (sizes == FANNED).any():
            self._leave_out(items, places[sizes == FANNED])
        found, inside = [], 1
        for size in np.unique(sizes[sizes < FANNED]).tolist():
            group = places[sizes == size]
            inside += len(group)
            if size != inside:
                raise MisfitError("the sizes of some clusters fit no tree")
            found.append(group[None])
        return found

    def _leave_out(self, items: Ints, places: Ints) -> None:
        if len(items) != len(self.members):
            raise MisfitError("the witness comes in at a part of the elements only")
        self.outer = places

    def _some(self, low: int, high: int) -> Ints:
        """Return places from low to high - 1, both ends and some between."""
        if high - low <= TRIES + 2:
            return np.arange(low, high)
        return np.concatenate(([low, high - 1], self.random.integers(low, high, TRIES)))

    def _prefix(self, items: Ints) -> list[Ints] | None:
        """Return the groups of places, or None where they are neither blocks nor lanes."""
        outermost: list[list[Ints]] = []
        visited: list[int] = []
        high = len(items)
        while high > 1:
            if high <= SMALL:
                outermost.append(self._all(items[:high]))
                break
            last = int(self._sizes(items, np.array([high - 1]))[0])
            start = self._tail(items, high, last) if last in (high, FANNED) else None
            if start is None:
                # An outermost block may have been a part of a lane.
                for back, longer in enumerate((high, *visited[: -BACK - 1 : -1])):
                    parts = self._parts(items[:longer])
                    if parts is not None:
                        outermost = [*outermost[: len(outermost) - back], parts]
                        break
                else:
                    return None
                break
            if last == FANNED:
                self._leave_out(items, np.arange(start, high))
                high = start
                continue
            size = high - start
            count = self._equal(items, high, size)
            low = high - count * size
            outermost.append([np.arange(low, high).reshape(count, size)])
            visited.append(high)
            high = low
        return [group for groups in reversed(outermost) for group in groups]

    def _tail(self, items: Ints, high: int, last: int) -> int | None:
        """Return where the places begin that the first meets together with the last one."""
        low, end = 0, high - 1  # place `low` is met before, place `end` with the last
        while end - low > 1:
            places = np.unique(np.linspace(low, end, 18).astype(np.int64)[1:-1])
            places = places[(places > low) & (places < end)]
            same = self._sizes(items, places) == last
            low = int(places[~same].max()) if not same.all() else low
            later = places[same & (places > low)]
            end = int(later.min()) if len(later) else end
        inside = self._some(end, high)
        before = self._some(1, end) if end > 1 else np.zeros(0, np.int64)
        sizes = self._sizes(items, np.concatenate((inside, before)))
        if (sizes[: len(inside)] != last).any() or (sizes[len(inside) :] >= last).any():
            return None
        return end

    def _equal(self, items: Ints, high: int, size: int) -> int:
        """Return how many groups of a size end at a place, one after the other."""
        most = (high - 1) // size
        if most == 1:
            return 1

        def fits(count: int) -> bool:
            start = high - count * size
            places = np.append(self._some(start, high), start - 1)
            sizes = self._sizes(items, places[places > 0])
            wanted = high - size * ((high - 1 - places[:-1]) // size)
            # What stands before the groups is a cluster, and the place before them is in it.
            apart = (sizes[len(wanted) :] <= start).all()
            return bool((sizes[: len(wanted)] == wanted).all() and apart)

        low, end = 1, most + 1
        middle = most
        while end - low > 1:
            low, end = (middle, end) if fits(middle) else (low, middle)
            middle = (low + end) // 2
        return low

    def _parts(self, items: Ints) -> list[Ints] | None:
        """Return the groups of places, where lanes or blocks are summed for themselves."""
        count = len(items)
        tried = {*range(1, min(count, WINDOW + 1)), *(-(-count >> i) for i in range(1, 8))}
        tried |= {1 << i for i in range(count.bit_length()) if 1 << i < count}
        places = np.array(sorted(place for place in tried if 0 < place < count))
        sizes = self._sizes(items, places)
        k = int(places[np.argmin(sizes)])
        if k > 1:
            return self._lanes(items, k)
        # Elsewhere, the first items form a block: the longest whose last item completes it.
        near = np.maximum.accumulate(sizes[: min(count - 1, WINDOW)])
        ends = np.flatnonzero((near == np.arange(2, len(near) + 2))[:-1] & (np.diff(near) > 1))
        for end in ends[::-1].tolist():
            if count % (end + 2) == 0:
                return self._blocks(items, end + 2)
        return None

    def _blocks(self, items: Ints, length: int) -> list[Ints] | None:
        inner = self._prefix(items[:length])
        outer = self._prefix(items.reshape(len(items) // length, -1))
        if inner is None or outer is None:
            return None
        return inner + [_spread(groups * length, np.arange(length)) for groups in outer]

    def _lanes(self, items: Ints, k: int) -> list[Ints] | None:
        """Return the groups of places, where every k-th is in the first one's lane."""
        count = len(items)
        if 2 * k > count:
            return None
        inner = self._prefix(items[::k])
        if inner is None:
            return None
        inner = [groups * k for groups in inner]
        if count % k == 0:
            length = count // k
            lanes = items.reshape(length, k, -1).transpose(1, 0, 2).reshape(k, -1)
            outer = self._prefix(lanes)
            if outer is None:
                return None
            return inner + [_spread(groups, k * np.arange(length)) for groups in outer]
        ends = np.array([[lane, lane + (count - 1 - lane) // k * k] for lane in range(1, k)])
        sizes = self._sizes(items, ends.ravel()).reshape(-1, 2)
        inside = -(-count // k)
        if (sizes[:, 0] != sizes[:, 1]).any() or (sizes <= inside).any():
            return None
        for size in np.unique(sizes[:, 0]).tolist():
            places = 1 + np.flatnonzero(sizes[:, 0] == size)
            group = np.sort(np.concatenate([np.arange(lane, count, k) for lane in places.tolist()]))
            inside += len(group)
            if size != inside:
                return None
            inner.append(group[None])
        return inner


def _spread(groups: Ints, apart: Ints) -> Ints:
    """Return the places of groups of parts, given those of each part from its first."""
    spread = groups[:, :, None] + apart
    return np.sort(spread.reshape(len(groups), -1), axis=1)


def _joined(found: list[Ints]) -> list[Ints]:
    """Return groups of equal size that follow each other as rows of one array."""
    joined: list[list[Ints]] = []
    for groups in found:
        if joined and joined[-1][0].shape[1] == groups.shape[1]:
            joined[-1].append(groups)
        else:
            joined.append([groups])
    return [np.concatenate(same) for same in joined]
