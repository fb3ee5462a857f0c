"""Find any tree, level by level, with one batch of probes for each level.

In each set of elements one is the pivot. M at the pivot and -M at another element make every unit
vanish that is added before the two meet, so the units that are left tell how large the cluster is
in which they meet. Elements of equal clusters form the sets of the next level. The number of
probes is that of FPRev (arXiv 2411.00442); all those of a level go into a call together.

Beside its own elements a set has a witness, an element outside it. If that vanishes too, the two
meet no lower than the whole set: a step of several terms.

Sets that lie apart are probed together: each counts in digits of its own of the same result.
"""

from __future__ import annotations

import bisect
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from lastbit.order.findings import NO_TREE, MisfitError, NoTreeError
from lastbit.order.probe import Prober
from lastbit.order.tree import Ints, OrderTree, tree_of_steps
from lastbit.order.units import Units
from lastbit.round_array import Codes

MANY = 64  # elements of one step that are told apart one by one
OPEN = 4  # bundles of sets that are filled at a time
SAMPLED = 8  # pivots of a larger step that are tried


@dataclass
class Cluster:
    """Elements that meet the rest of the tree together, or at one step.

    Attributes:
        members: the elements; the pivot is `members[pivot]`.
        witness: an element outside them, or -1 where there is none.
        pivot: where the pivot stands.
        alone: how many pivots before met all others at one step.
        flat: whether all elements are taken to meet at one step.
        inner: the sets that the pivot meets, one after the other.
        outer: those that it meets at the step where the witness comes in.
    """

    members: Ints
    witness: int
    pivot: int = 0
    alone: int = 0
    flat: bool = False
    inner: list[Cluster] = field(default_factory=list)
    outer: Cluster | None = None

    @property
    def units(self) -> int:
        """The units that a probe of it holds."""
        return len(self.members) - 2 + (self.witness >= 0)


class Asked:
    """Probes about one set, or about several that lie apart.

    Args:
        clusters: the sets.
        others: for each, what its pivot is asked about.
        shifts: for each, the digit that its counts begin at.
        units: for one set, the elements with units; several have them on all members.
        most: how many units one probe may hold; more take several probes.

    Attributes:
        rows: the number of probes.
        total: the counts of one set.
    """

    def __init__(
        self,
        clusters: list[Cluster],
        others: list[Ints],
        shifts: list[int],
        units: Ints | None,
        most: int,
    ) -> None:
        self.clusters, self.others, self.shifts, self.units = clusters, others, shifts, units
        self.chunks = (
            [slice(None)]
            if units is None
            else [slice(i, i + most) for i in range(0, max(1, len(units)), most)]
        )
        self.rows = max(len(own) for own in others) * len(self.chunks)
        self.total = np.zeros(0, np.int64)

    def fill(self, block: Codes, start: int, stop: int, numbers: Units) -> None:
        """Write probes start to stop - 1."""
        plus, minus = numbers.code(numbers.top), numbers.code(numbers.top, negative=True)
        if self.units is None:
            for cluster, others, shift in zip(self.clusters, self.others, self.shifts, strict=True):
                own = others[start:stop]
                rows = block[: len(own)]
                if len(own):
                    rows[:, cluster.members] = rows[:, cluster.witness] = numbers.code(
                        numbers.low + shift
                    )
                    rows[:, cluster.members[cluster.pivot]] = plus
                    rows[np.arange(len(own)), own] = minus
            return
        cluster, others = self.clusters[0], self.others[0]
        while start < stop:
            chunk, at = divmod(start, len(others))
            own = others[at : at + stop - start]
            rows = block[: len(own)]
            units = self.units[self.chunks[chunk]]
            if len(units) >= rows.shape[1] - 1:
                rows.fill(numbers.code(numbers.low))
            else:
                rows[:, units] = numbers.code(numbers.low)
            rows[:, cluster.members[cluster.pivot]] = plus
            rows[np.arange(len(own)), own] = minus
            block, start = block[len(own) :], start + len(own)

    def take(self, counts: Ints) -> None:
        """Keep the counts of all probes."""
        self.total = counts if self.units is None else counts.reshape(len(self.chunks), -1).sum(0)

    def found(self) -> list[Ints]:
        """Return the counts of each set."""
        if self.units is not None:
            return [self.total]
        widths = [cluster.units.bit_length() for cluster in self.clusters]
        return [
            self.total[: len(own)] >> shift & ((1 << width) - 1)
            for own, shift, width in zip(self.others, self.shifts, widths, strict=True)
        ]

    def meets_witness(self) -> bool:
        """Say whether a pivot meets something no lower than its witness."""
        return any(
            cluster.witness >= 0 and bool((counts == 0).any())
            for cluster, counts in zip(self.clusters, self.found(), strict=True)
        )


class Search:
    """The search for any tree.

    Args:
        prober: hands probes to the function.
        units: the numbers that probes are made of.
        room: the digits that may count; fewer than `units.room` where those were too many.
    """

    def __init__(self, prober: Prober, units: Units, room: int | None = None) -> None:
        self.prober, self.units = prober, units
        self.room = units.room if room is None else room
        self.apart = True  # whether sets are still probed together
        self.sampled = False
        self._first: dict[int, int] = {}  # what is known of element 0

    def tree(self) -> OrderTree:
        """Return the tree.

        Raises:
            MisfitError: the sizes of clusters fit no tree.
        """
        whole = Cluster(np.arange(self.prober.n), -1)
        found, level = [whole], [whole]
        if self.prober.n > 1:
            self._group(whole, self.outside(whole, whole.members[1:]))
            level = list(whole.inner)
            found += level
        while level:
            level = [c for c in level if len(c.members) > 1 and not c.flat]
            self._probe(level)
            level = [c for one in level for c in (*one.inner, *([one.outer] if one.outer else []))]
            found += level
        return _assembled(self.prober.n, found)

    def flat(self) -> OrderTree | None:
        """Return the tree in which all that element 0 meets together is added in one step.

        Returns:
            None where it is known to be no such tree.

        Raises:
            MisfitError: the sizes of clusters fit no tree.
        """
        whole = Cluster(np.arange(self.prober.n), -1)
        self._group(whole, self.outside(whole, whole.members[1:]))
        node, steps = 0, []
        for group in whole.inner:
            if len(group.members) > 1 and self.outside(group, group.members[-1:])[0]:
                return None
            steps.append([node, *group.members.tolist()])
            node = self.prober.n + len(steps) - 1
        return tree_of_steps(self.prober.n, steps)

    def outside(self, cluster: Cluster, others: Ints) -> Ints:
        """Return for each other element how many units stay out of where the pivot meets it."""
        whole = len(cluster.members) == self.prober.n and cluster.pivot == 0
        known = self._first if whole else {}
        new = np.array([o for o in dict.fromkeys(others.tolist()) if o not in known], np.int64)
        if len(new):
            asked = self._asked(cluster, new)
            self._run([asked])
            known.update(zip(new.tolist(), asked.total.tolist(), strict=True))
        return np.array([known[other] for other in others.tolist()], np.int64)

    def _asked(self, cluster: Cluster, others: Ints) -> Asked:
        pivot = int(cluster.members[cluster.pivot])
        rest = cluster.members[cluster.members != pivot]
        units = np.append(rest, cluster.witness) if cluster.witness >= 0 else rest
        most = (1 << self.room) - 1
        if most < 1:
            fmt = self.prober.format
            reason = f"no unit of {fmt} is both lost beside M and counted; try a wider format"
            raise NoTreeError(self.prober.target.label, NO_TREE, reason)
        return Asked([cluster], [others], [0], units, most)

    def _run(self, jobs: Sequence[Asked]) -> None:
        """Ask all at once, in calls that are as full as can be."""
        starts = np.cumsum([0, *(job.rows for job in jobs)]).tolist()

        def fill(block: Codes, start: int, stop: int) -> None:
            first = bisect.bisect_right(starts, start) - 1
            for job, at in zip(jobs[first:], starts[first:], strict=False):
                if at >= stop:
                    break
                low, high = max(start, at), min(stop, at + job.rows)
                job.fill(block[low - start : high - start], low - at, high - at, self.units)

        counts = self.units.counts(self.prober.run(starts[-1], fill))
        for job, at in zip(jobs, starts, strict=False):
            job.take(counts[at : at + job.rows])

    def _probe(self, level: Sequence[Cluster]) -> None:
        """Find what the pivot of each set meets."""
        jobs = [
            self._together(bundle) if len(bundle) > 1 else self._alone(bundle[0])
            for bundle in self._bundles(level)
        ]
        if not jobs:
            return
        self._run(jobs)
        again: list[Asked] = []
        for job in jobs:
            if len(job.clusters) > 1 and job.meets_witness():
                self.apart = False  # what one set lost may have been lost in another
                again += [self._alone(cluster) for cluster in job.clusters]
        if again:
            self._run(again)
        for job in [job for job in jobs if len(job.clusters) == 1 or not job.meets_witness()]:
            self._take(job)
        for job in again:
            self._take(job)

    def _take(self, job: Asked) -> None:
        for cluster, found in zip(job.clusters, job.found(), strict=True):
            self._group(cluster, found)

    def _alone(self, cluster: Cluster) -> Asked:
        pivot = cluster.members[cluster.pivot]
        return self._asked(cluster, cluster.members[cluster.members != pivot])

    def _together(self, bundle: Sequence[Cluster]) -> Asked:
        others = [c.members[c.members != c.members[c.pivot]] for c in bundle]
        widths = [cluster.units.bit_length() for cluster in bundle]
        shifts = np.concatenate(([0], np.cumsum(widths)))[:-1].tolist()
        return Asked(list(bundle), others, shifts, None, 0)

    def _bundles(self, level: Sequence[Cluster]) -> list[list[Cluster]]:
        """Return the sets that one probe asks about: apart, with counts that fit one result."""
        done: list[list[Cluster]] = []
        open_ones: list[tuple[list[Cluster], int, set[int]]] = []
        for cluster in sorted(level, key=lambda c: len(c.members)):
            more, taken = cluster.units.bit_length(), {*cluster.members.tolist(), cluster.witness}
            for i, (bundle, digits, used) in enumerate(open_ones if self.apart else []):
                if digits + more <= self.room and used.isdisjoint(taken):
                    bundle.append(cluster)
                    open_ones[i] = bundle, digits + more, used | taken
                    break
            else:
                open_ones.append(([cluster], more, taken))
                done += [bundle for bundle, _, _ in open_ones[:-OPEN]]
                open_ones = open_ones[-OPEN:]
        return done + [bundle for bundle, _, _ in open_ones]

    def _group(self, cluster: Cluster, outside: Ints) -> None:
        """Sort what the pivot meets into sets, innermost first.

        Raises:
            MisfitError: the counts are not those of nested clusters.
        """
        pivot = int(cluster.members[cluster.pivot])
        rest = cluster.members[cluster.members != pivot]
        witnessed = cluster.witness >= 0
        inside, before = 1, pivot
        for count in np.unique(outside)[::-1].tolist():
            group = rest[outside == count]
            inside += len(group)
            left = len(cluster.members) - inside
            if witnessed and count == 0:
                if left:
                    raise MisfitError(_misfit(pivot, int(group[0]), left, 0))
                alone = cluster.alone + 1 if len(group) == len(rest) else 0
                flat = alone >= SAMPLED and len(group) > MANY
                self.sampled |= flat
                cluster.outer = Cluster(group, cluster.witness, alone=alone, flat=flat)
            elif count != left + witnessed:
                raise MisfitError(_misfit(pivot, int(group[0]), left + witnessed, count))
            else:
                # A set that is most of its parent calls for another pivot.
                large = len(group) > 0.75 * len(cluster.members)
                at = int(self.prober.random.integers(len(group))) if large else 0
                cluster.inner.append(Cluster(group, before, pivot=at))
                before = int(group[0])


def _misfit(pivot: int, other: int, wanted: int, found: int) -> str:
    return (
        f"where elements {pivot} and {other} meet, {found} of the others are left out, but in "
        f"a tree it would be {wanted}"
    )


def _assembled(n: int, clusters: Sequence[Cluster]) -> OrderTree:
    """Return the tree of sets, which stand before their parts."""
    steps: list[list[int]] = []
    roots: dict[int, list[int]] = {}

    for cluster in reversed(clusters):
        if cluster.flat or len(cluster.members) == 1:
            roots[id(cluster)] = cluster.members.tolist()
            continue
        node = int(cluster.members[cluster.pivot])
        for part in cluster.inner:
            steps.append([node, *roots.pop(id(part))])
            node = n + len(steps) - 1
        beside = roots.pop(id(cluster.outer)) if cluster.outer is not None else []
        roots[id(cluster)] = [node, *beside]
    return tree_of_steps(n, steps)
