"""Inputs of ordinary runs, where those drawn freely give none.

A variance that is drawn negative makes NaN of a whole layer, and scores far apart let a softmax
lose its smallest weights. So each input gets a habit: its sign and magnitude, or zeros. All begin
free. Of the inputs above the place that stops a run, the one whose habit takes the run furthest is
given that habit, until nothing stops it.
"""

from __future__ import annotations

import math
import random
from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from itertools import product

from lastbit.graph import Input, topological
from lastbit.interpret.exact import exact_array
from lastbit.verify.candidates import full
from lastbit.verify.glance import Glance, glance
from lastbit.verify.held import held_in
from lastbit.verify.region import Region
from lastbit.verify.runs import Inputs


@dataclass(frozen=True, slots=True)
class Habit:
    """How the values of an input are drawn.

    Attributes:
        power: the exponent of their magnitude; None: all are zero.
        positive: whether none is negative.
    """

    power: int | None = 0
    positive: bool = False


FREE = Habit()
HABITS = (
    Habit(0, positive=True),
    Habit(-3),
    Habit(-3, positive=True),
    Habit(-6),
    Habit(-6, positive=True),
    Habit(3, positive=True),
)
ZERO = Habit(None)  # tried last: it hides what it multiplies
SPREAD = 1  # powers of two up and down from the magnitude of a habit

Habits = Mapping[str, Habit]


def drawn(region: Region, habits: Habits, rng: random.Random) -> Inputs:
    """Return inputs with full significands, each by its habit."""
    inputs = {}
    for node in region.inputs:
        habit = habits.get(node.name, FREE)
        values = [_value(node, habit, rng) for _ in range(math.prod(node.shape))]
        inputs[node.name] = exact_array([held_in(v, node.format) for v in values], node.shape)
    return inputs


def _value(node: Input, habit: Habit, rng: random.Random) -> Fraction:
    if habit.power is None:
        return Fraction(0)
    value = full(node.format, SPREAD, rng) * Fraction(2) ** habit.power
    return abs(value) if habit.positive else value


def tamed(region: Region, seed: int, most: int) -> Habits | None:
    """Return habits of the inputs with which a run is ordinary, as far as a glance shows.

    Args:
        region: the two graphs; no sum in them is in any order.
        seed: selects the draws.
        most: glances made to find them.

    Returns:
        None where none are found.
    """
    search = _Taming(region, seed, most)
    habits: dict[str, Habit] = {}
    seen = search.seen(habits)
    while seen is not None and seen.stopped is not None:
        step = search.step(habits, seen)
        if step is None:
            return None
        habits, seen = step
    return None if seen is None else habits


@dataclass(slots=True)
class _Taming:
    """A search for habits.

    Attributes:
        region: the two graphs.
        seed: selects the draws, the same for all habits.
        left: glances that may still be made.
    """

    region: Region
    seed: int
    left: int

    def seen(self, habits: Habits) -> Glance | None:
        """Return what is seen of a run with some habits; None where nothing is, or none is left."""
        if not self.left:
            return None
        self.left -= 1
        return glance(self.region, drawn(self.region, habits, random.Random(self.seed)), wary=True)

    def step(
        self, habits: dict[str, Habit], seen: Glance
    ) -> tuple[dict[str, Habit], Glance] | None:
        """Change the habit of one input, so that the run goes further; None where none does.

        Where no single one helps, as of many variances in one product, all get the same habit. The
        first that takes the run past the place that stops it is taken; else the best.
        """
        assert seen.stopped is not None
        above = tuple(node.name for node in topological([seen.stopped]) if isinstance(node, Input))
        alone = [(name,) for name in above]
        for choices, groups in ((HABITS, alone), (HABITS, [above]), ((ZERO,), alone)):
            best, furthest = None, seen
            for habit, names in product(choices, groups):
                changed = {**habits, **dict.fromkeys(names, habit)}
                now = None if changed == habits else self.seen(changed)
                if now is None or now.passed <= furthest.passed:
                    continue
                best, furthest = changed, now
                if now.stopped is None or now.stopped.key != seen.stopped.key:
                    return changed, now
            if best is not None:
                return best, furthest
        return None
