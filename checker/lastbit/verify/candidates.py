"""Inputs aimed at the kind of a difference.

Small integers for `math`, which are exact in any order; full significands for `grid` and
`rounding`, which fall beside midpoints; large M, -M and ones for `reassociation`.
"""

from __future__ import annotations

import math
import random
from collections.abc import Iterator
from fractions import Fraction

from lastbit.choices import is_index
from lastbit.formats import Format
from lastbit.graph import Const, Graph, Reduce, topological
from lastbit.interpret.exact import exact_array, ordinary
from lastbit.interpret.policy import Policy
from lastbit.rounding import Rounding
from lastbit.verify.held import held_in
from lastbit.verify.region import Region
from lastbit.verify.runs import Inputs

_INTEGERS = (1, 2, 3, -1, -2, 1, 2, 3, 4, 5, 0)
MOST_COUNTED = 1000  # constants up to here are reached by spread significands
_SHORT = (1, 1, 1, 3, 5, 7, -1, -3, 17, 19, 127)  # 7 * 64 and 127 end the grids of 8 bits


def candidates(
    region: Region, policy: Policy, rng: random.Random, count: int, turn: int
) -> Iterator[Inputs]:
    """Yield inputs aimed at a policy; later turns are wilder."""
    digits = max((acc.format.precision for acc in _accumulators(region)), default=24)
    names = [node.name for node in region.inputs]
    longest = max((math.prod(node.shape) for node in region.inputs), default=1)
    for number in range(count):
        special = rng.choice(names or [""])
        places = rng.sample(range(longest), min(longest, 2))
        inputs = {}
        for node in region.inputs:
            size = math.prod(node.shape)
            if policy == Policy.REAL and number % 2 == 0:
                values = [Fraction(rng.choice(_INTEGERS)) for _ in range(size)]
            elif policy == Policy.BITS and number % 4 == 2:
                values = _far_apart(size, digits, node.format, rng, places, node.name == special)
            elif policy == Policy.BITS and number % 4 != 3:
                values = [Fraction(1)] * size
                if node.name == special:
                    values = _cancelling(size, digits, node.format, rng, number % 4 == 1)
            else:
                spread = (1, 3, 10)[(turn + number // 4) % 3]
                values = [full(node.format, spread, rng) for _ in range(size)]
            held = [held_in(value, node.format) for value in values]
            inputs[node.name] = exact_array(held, node.shape)
        if all(ordinary(inputs[node.name], node.format) for node in region.inputs):
            yield inputs
    if policy == Policy.GRID:
        yield from _short(region, count, turn)
    if policy == Policy.REAL:
        yield from _near_constants(region, count, turn)
    if any(_orders(graph) for graph in (region.before, region.after)):
        yield from _crowded(region, rng, count)


def _near_constants(region: Region, count: int, turn: int) -> Iterator[Inputs]:
    """Yield inputs of which one is near a large constant of the graphs, such as a sentinel."""
    found = {
        node.value
        for graph in (region.before, region.after)
        for node in topological(graph.results)
        if isinstance(node, Const) and isinstance(node.value, Fraction)
    }
    large = sorted(value for value in found if abs(value) > MOST_COUNTED)
    rng = random.Random(turn)
    for _ in range(count if large else 0):
        special = rng.choice(region.inputs)
        inputs = {}
        for node in region.inputs:
            base = rng.choice(large) if node is special else Fraction(0)
            values = [base + rng.choice(_INTEGERS) for _ in range(math.prod(node.shape))]
            held = [held_in(value, node.format) for value in values]
            inputs[node.name] = exact_array(held, node.shape)
        if all(ordinary(inputs[node.name], node.format) for node in region.inputs):
            yield inputs


def _orders(graph: Graph) -> bool:
    return any(isinstance(n, Reduce) and is_index(n.op) for n in topological(graph.results))


def _crowded(region: Region, rng: random.Random, count: int) -> Iterator[Inputs]:
    """Yield inputs whose elements are few ulp apart: a rounding makes some of them equal."""
    for number in range(count):
        inputs = {}
        for node in region.inputs:
            middle = full(node.format, 1, rng) * Fraction(2) ** -rng.choice((0, 0, 4, 6))
            step = abs(middle) * Fraction(2) ** (1 - (4, 7, node.format.precision)[number % 3])
            values = [middle + rng.randint(0, 4) * step for _ in range(math.prod(node.shape))]
            held = [held_in(value, node.format) for value in values]
            inputs[node.name] = exact_array(held, node.shape)
        if all(ordinary(inputs[node.name], node.format) for node in region.inputs):
            yield inputs


def _short(region: Region, count: int, turn: int) -> Iterator[Inputs]:
    """Yield inputs of few digits, whose quotients and products lie on midpoints of a grid."""
    rng = random.Random(turn)
    for _ in range(count):
        inputs = {}
        for node in region.inputs:
            values = [
                Fraction(rng.choice(_SHORT), 2 ** rng.randint(0, 4))
                for _ in range(math.prod(node.shape))
            ]
            held = [held_in(value, node.format) for value in values]
            inputs[node.name] = exact_array(held, node.shape)
        if all(ordinary(inputs[node.name], node.format) for node in region.inputs):
            yield inputs


def _far_apart(
    size: int, digits: int, fmt: Format, rng: random.Random, places: list[int], signed: bool
) -> list[Fraction]:
    """Return large values at two places and small ones elsewhere, in every input alike.

    So products are far apart even where a format, or a scale taken from the row, holds little.
    """
    large = Fraction(2) ** rng.randint(0, max(min(digits // 2, fmt.emax), 0))
    small = Fraction(2) ** -rng.randint(0, max(min(digits // 2, -fmt.emin), 0))
    values = [small] * size
    for place, sign in zip(places, (1, -1), strict=False):
        if place < size:
            values[place] = large * (sign if signed else 1)
    return values


def _cancelling(
    size: int, digits: int, fmt: Format, rng: random.Random, spread: bool
) -> list[Fraction]:
    """Return ones with M and -M among them: what is added while M is there is lost."""
    big = Fraction(2) ** min(digits, fmt.emax)
    values = [Fraction(1)] * size
    if spread:
        pool = (big, -big, Fraction(1), Fraction(0), big / 2 + 1)
        return [rng.choice(pool) for _ in range(size)]
    places = rng.sample(range(size), min(size, 2))
    for place, sign in zip(places, (1, -1), strict=False):
        values[place] = sign * big
    return values


def full(fmt: Format, spread: int, rng: random.Random) -> Fraction:
    """Return a number with a full significand, of a magnitude near 1."""
    low = 1 << max(fmt.precision - 1, 0)
    exponent = rng.randint(-spread, spread) - fmt.precision + 1
    sign = -1 if fmt.signed and rng.random() < 0.4 else 1
    return sign * (rng.getrandbits(max(fmt.precision, 1)) | low) * Fraction(2) ** exponent


def _accumulators(region: Region) -> Iterator[Rounding]:
    for graph in (region.before, region.after):
        for node in topological(graph.results):
            if isinstance(node, Reduce) and node.acc is not None:
                yield node.acc
