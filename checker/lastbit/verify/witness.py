"""Find an input on which two graphs differ, of the kind that is asked for, and shrink it.

A witness shows its kind: the two sides differ in the exact domain under the policy that
disagrees, and in their bits, on an ordinary run. Candidates are aimed at the kind (`candidates`);
last come midpoints (`near_ties`, `level_ties`).
"""

from __future__ import annotations

import math
import random
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Generic, TypeVar

import numpy as np

from lastbit.errors import LastbitError
from lastbit.formats import Exact, identical
from lastbit.graph import Map, Reduce, topological
from lastbit.interpret.policy import Policy
from lastbit.rounding import Undecided
from lastbit.verify.agree import agree
from lastbit.verify.candidates import candidates
from lastbit.verify.glance import glance
from lastbit.verify.held import simpler
from lastbit.verify.level_ties import level_ties
from lastbit.verify.near_ties import near_ties
from lastbit.verify.region import Region
from lastbit.verify.runs import Inputs, not_apart, run
from lastbit.verify.tame import drawn, tamed

EFFORT = 100_000  # elements evaluated in one search, about a second
LARGEST = 1 << 18  # elements of one run of a region that is put to tamed inputs only
MOST_TAMED = 3  # sizes at which inputs are tamed
MOST_GLANCES = 200  # quick runs to tame the inputs of one region
FEW_RUNS = 4  # runs of a region with tamed inputs that may exceed the effort
FEW_ALIKE = 1  # of these, runs whose results are seen to be alike
DENSE = 40  # elements of one run for each node, from which on a quick run is quicker
ENCLOSED = 40  # elements that one enclosed function counts for


@dataclass(frozen=True, slots=True)
class Found:
    """A witness.

    Attributes:
        region: the two graphs at the witness's sizes; sums in any order have one order each.
        sizes: the sizes.
        inputs: values of the inputs.
        policy: the policy under which the kind shows.
        output: the name of the result that differs.
        index: where.
        before: the value there before, all roundings done.
        after: the value there afterwards.
        tried: inputs tried until it was found.
    """

    region: Region
    sizes: Mapping[str, int]
    inputs: Inputs
    policy: Policy
    output: str
    index: tuple[int, ...]
    before: Exact
    after: Exact
    tried: int


Sized = tuple[Mapping[str, int], Region]
V = TypeVar("V")


class Kept(Generic[V]):
    """Values that are made when they are first asked for, and kept for the next time."""

    def __init__(self, values: Iterable[V]) -> None:
        self._made: list[V] = []
        self._rest = iter(values)

    def __iter__(self) -> Iterator[V]:
        """Yield the values from the first."""
        i = 0
        while True:
            if i == len(self._made):
                value = next(self._rest, None)
                if value is None:
                    return
                self._made.append(value)
            yield self._made[i]
            i += 1


@lru_cache(maxsize=256)
def cost_of(region: Region) -> int:
    """Return the number of elements that one run of both sides evaluates.

    A function of the reals that must be enclosed counts for many.
    """
    total = 0
    for graph in (region.before, region.after):
        for node in topological(graph.results):
            shape = node.x.shape if isinstance(node, Reduce) else node.shape
            enclosed = isinstance(node, Map) and node.fn not in _RATIONAL
            total += math.prod(shape) * (ENCLOSED if enclosed else 1)
    return max(total, 1)


@lru_cache(maxsize=256)
def _is_dense(region: Region) -> bool:
    """Return whether a quick run of both sides is quicker than an exact one."""
    nodes = sum(len(list(topological(g.results))) for g in (region.before, region.after))
    return cost_of(region) > DENSE * nodes


_RATIONAL = frozenset(
    ("neg", "abs", "add", "sub", "mul", "div", "max", "min", "relu", "clamp", "sign", "floor")
) | {"ceil", "less", "less_equal", "equal", "select"}


@dataclass(slots=True)
class Search:
    """A search for a witness.

    Attributes:
        policy: the policy under which the sides must differ.
        effort: elements evaluated after which the search ends without one. Not seconds: the
            same input gives the same verdict on a busy machine too.
        seed: selects the candidates.
        widest: elements of one run of a region beyond which its inputs are only drawn tamed.
        tried: inputs tried so far.
        ordinary: of these, the number whose runs were ordinary on both sides.
    """

    policy: Policy
    effort: int = EFFORT
    seed: int = 0
    widest: int = EFFORT
    tried: int = 0
    ordinary: int = 0

    def run(self, regions: Kept[Sized], rounds: int = 3, each: int = 24) -> Found | None:
        """Search regions, given from the smallest upwards; return the first witness, shrunk."""
        equal: set[int] = set()
        found = self._drawn(regions, equal, rounds, each)
        return self._tamed(regions, each) if found is None and not self.ordinary else found

    def _drawn(self, regions: Kept[Sized], equal: set[int], rounds: int, each: int) -> Found | None:
        """Search inputs that are drawn freely, then those at and beside midpoints.

        Args:
            regions: the regions; of those beyond the effort none is run.
            equal: extended by the numbers of those whose sides agree under the policy.
            rounds: how often the regions are gone through.
            each: candidates for a region in a round.
        """
        spent = 0
        rng = random.Random(self.seed)
        for turn in range(rounds):
            for number, (sizes, region) in enumerate(regions):
                cost = cost_of(region)
                if cost > self.widest:
                    equal.add(number)
                    continue
                if turn == 0 and agree(region.before, region.after, self.policy, 1).equal:
                    equal.add(number)
                if number in equal:
                    continue
                for inputs in candidates(region, self.policy, rng, each, turn):
                    spent += cost
                    if spent > self.effort:
                        return self._level_ties(regions, equal, each)
                    found = self.judge(region, sizes, inputs)
                    if found is not None:
                        return self.shrink(found)
        found = self._near_ties(regions, equal, each)
        return self._level_ties(regions, equal, each) if found is None else found

    def _level_ties(self, regions: Kept[Sized], equal: set[int], each: int) -> Found | None:
        """Search inputs that show a sum's rounding to a wider format before the one it gets."""
        if self.policy != Policy.ROUND:  # only there a sum is rounded once a level
            return None
        made = (
            (sizes, region, level_ties(region, random.Random(self.seed), 4 * each))
            for number, (sizes, region) in enumerate(regions)
            if number not in equal
        )
        return self._first(made)

    def _near_ties(self, regions: Kept[Sized], equal: set[int], each: int) -> Found | None:
        """Search inputs at and beside the midpoints of the formats that values are rounded to.

        Args:
            regions: the regions.
            equal: the numbers of those whose sides agree under the policy.
            each: half as many candidates as are tried on each of the others.
        """
        if self.policy == Policy.REAL:  # nothing is rounded
            return None
        made = (
            (sizes, region, near_ties(region, random.Random(self.seed), 2 * each))
            for number, (sizes, region) in enumerate(regions)
            if number not in equal
        )
        return self._first(made)

    def _first(
        self, made: Iterable[tuple[Mapping[str, int], Region, Iterator[Inputs]]]
    ) -> Found | None:
        """Return the first witness among inputs for regions, shrunk; half the effort is spent."""
        spent = 0
        for sizes, region, aimed in made:
            for inputs in aimed:
                spent += cost_of(region)
                if spent > self.effort // 2:
                    return None
                found = self.judge(region, sizes, inputs)
                if found is not None:
                    return self.shrink(found)
        return None

    def _tamed(self, regions: Kept[Sized], each: int) -> Found | None:
        """Search inputs that are drawn with habits under which runs are ordinary."""
        spent = tried = 0
        for sizes, region in regions:
            if tried == MOST_TAMED:
                break
            if agree(region.before, region.after, self.policy, 1).equal:
                continue
            tried += 1
            habits = tamed(region, self.seed, MOST_GLANCES)
            if habits is None:
                continue
            rng, cost, alike = random.Random(self.seed), cost_of(region), 0
            for _ in range(each):
                inputs = drawn(region, habits, rng)
                seen = glance(region, inputs)
                if seen is None or seen.stopped is not None:
                    continue
                alike += not seen.differs
                if not seen.differs and alike > FEW_ALIKE:
                    continue
                spent += cost
                if spent > max(self.effort, FEW_RUNS * cost):
                    return None
                found = self.judge(region, sizes, inputs)
                if found is not None:
                    return self.shrink(found)
        return None

    def judge(self, region: Region, sizes: Mapping[str, int], inputs: Inputs) -> Found | None:
        """Return the witness that some inputs are, or None."""
        self.tried += 1
        if _is_dense(region):
            seen = glance(region, inputs)
            if seen is not None and seen.stopped is not None:
                return None
        try:
            bits = run(region, inputs, Policy.BITS)
            if not bits.ordinary:
                return None
            self.ordinary += 1
            place = bits.difference(identical)
            if place is None:
                return None
            if self.policy != Policy.BITS:
                kind = run(region, inputs, self.policy)
                place = kind.difference(not_apart)
                if place is None:
                    return None
                output, index = place
                before, after = bits.at(output, index)
                if identical(before, after):
                    place = bits.difference(identical)
                    assert place is not None
        except (Undecided, ZeroDivisionError, OverflowError, LastbitError):
            return None
        output, index = place
        before, after = bits.at(output, index)
        name = region.outputs[output]
        return Found(region, sizes, inputs, self.policy, name, index, before, after, self.tried)

    def shrink(self, found: Found) -> Found:
        """Return a witness with simpler values: zeros, ones, short significands."""
        left = self.effort // 4 // cost_of(found.region)
        best = found
        formats = {node.name: node.format for node in found.region.inputs}
        for name in sorted(found.inputs):
            for index in np.ndindex(*found.inputs[name].shape):
                values: Iterator[Exact] = simpler(best.inputs[name][index], formats[name])  # type: ignore[arg-type]
                for value in values:
                    left -= 1
                    if left < 0:
                        return best
                    array = best.inputs[name].copy()
                    array[index] = value
                    smaller = self.judge(best.region, best.sizes, {**best.inputs, name: array})
                    if smaller is not None:
                        best = smaller
                        break
        return best
