"""Find an input on which two graphs differ, of the kind that is asked for, and shrink it.

A witness shows its kind: the two sides differ in the exact domain under the policy that
disagrees, and in their bits, on an ordinary run. Candidates are aimed at the kind: small
integers for `math`, which are exact in any order; full significands for `grid` and `rounding`,
which fall beside midpoints; large M, -M and ones for `reassociation`. Last come midpoints.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import Any, Generic, TypeVar

import numpy as np

from lastbit.choices import is_index
from lastbit.errors import LastbitError
from lastbit.formats import Exact, Format, identical
from lastbit.graph import Const, Graph, Map, Reduce, Round, topological
from lastbit.interpret.evaluate import evaluate
from lastbit.interpret.exact import ExactDomain, Objects, exact_array, ordinary
from lastbit.interpret.policy import Policy
from lastbit.reals import Real, same
from lastbit.rounding import Rounding, Undecided, round_exact
from lastbit.verify.agree import agree
from lastbit.verify.region import Region

EFFORT = 100_000  # elements evaluated in one search, about a second
ENCLOSED = 40  # elements that one enclosed function counts for

Inputs = Mapping[str, Objects]


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
        tried: inputs tried so far.
        ordinary: of these, the number whose runs were ordinary on both sides.
    """

    policy: Policy
    effort: int = EFFORT
    seed: int = 0
    tried: int = 0
    ordinary: int = 0

    def run(self, regions: Kept[Sized], rounds: int = 3, each: int = 24) -> Found | None:
        """Search regions, given from the smallest upwards; return the first witness, shrunk."""
        spent = 0
        rng = random.Random(self.seed)
        equal: set[int] = set()
        for turn in range(rounds):
            for number, (sizes, region) in enumerate(regions):
                if turn == 0 and agree(region.before, region.after, self.policy, 1).equal:
                    equal.add(number)
                if number in equal:
                    continue
                cost = cost_of(region)
                for inputs in candidates(region, self.policy, rng, each, turn):
                    spent += cost
                    if spent > self.effort:
                        return None
                    found = self.judge(region, sizes, inputs)
                    if found is not None:
                        return self.shrink(found)
        return self._near_ties(regions, equal, each)

    def _near_ties(self, regions: Kept[Sized], equal: set[int], each: int) -> Found | None:
        """Search inputs at and beside the midpoints of the formats that values are rounded to.

        Args:
            regions: the regions.
            equal: the numbers of those whose sides agree under the policy.
            each: half as many candidates as are tried on each of the others.
        """
        if self.policy == Policy.REAL:  # nothing is rounded
            return None
        spent = 0
        for number, (sizes, region) in enumerate(regions):
            if number in equal:
                continue
            for inputs in near_ties(region, random.Random(self.seed), 2 * each):
                spent += cost_of(region)
                if spent > self.effort // 2:
                    return None
                found = self.judge(region, sizes, inputs)
                if found is not None:
                    return self.shrink(found)
        return None

    def judge(self, region: Region, sizes: Mapping[str, int], inputs: Inputs) -> Found | None:
        """Return the witness that some inputs are, or None."""
        self.tried += 1
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
                values: Iterator[Exact] = _simpler(best.inputs[name][index], formats[name])  # type: ignore[arg-type]
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


@dataclass(frozen=True, slots=True)
class Run:
    """Both sides of a region on the same inputs.

    Attributes:
        before: result arrays before.
        after: result arrays afterwards.
        ordinary_before: whether the run of that side was ordinary.
        ordinary_after: whether the run of that side was ordinary.
        saturated: whether a number was beyond the range of a format that saturates, by side.
    """

    before: Sequence[Objects]
    after: Sequence[Objects]
    ordinary_before: bool
    ordinary_after: bool
    saturated: tuple[bool, bool] = (False, False)

    @property
    def ordinary(self) -> bool:
        """Return whether the runs of both sides were ordinary."""
        return self.ordinary_before and self.ordinary_after

    def difference(self, equal: Callable[[Any, Any], bool]) -> tuple[int, tuple[int, ...]] | None:
        """Return the output and the index of the first pair that is not equal."""
        for i, (x, y) in enumerate(zip(self.before, self.after, strict=True)):
            for index in np.ndindex(*x.shape):
                if not equal(x[index], y[index]):
                    return i, index
        return None

    def at(self, output: int, index: tuple[int, ...]) -> tuple[Any, Any]:
        """Return the pair of values at a place."""
        return self.before[output][index], self.after[output][index]


def run(region: Region, inputs: Inputs, policy: Policy) -> Run:
    """Evaluate both sides in the exact domain."""
    sides = []
    for graph in (region.before, region.after):
        domain = ExactDomain(inputs)
        values = evaluate(graph.results, domain, policy)
        shapes = [node.shape for node in graph.results]
        arrays = [np.broadcast_to(v.array, s) for v, s in zip(values, shapes, strict=True)]
        special = any(isinstance(v, float) for array in arrays for v in array.flat)
        sides.append((arrays, domain.ordinary and not special, domain.saturated))
    (before, plain, clipped), (after, still_plain, still_clipped) = sides
    return Run(before, after, plain, still_plain, (clipped, still_clipped))


def not_apart(a: Any, b: Any) -> bool:
    """Return whether two numbers are not known to differ."""
    if isinstance(a, Real) or isinstance(b, Real):
        return same(a, b) is not False
    return identical(a, b) or a == b


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
                values = [_full(node.format, spread, rng) for _ in range(size)]
            held = [_held(value, node.format) for value in values]
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
            held = [_held(value, node.format) for value in values]
            inputs[node.name] = exact_array(held, node.shape)
        if all(ordinary(inputs[node.name], node.format) for node in region.inputs):
            yield inputs


def near_ties(region: Region, rng: random.Random, count: int) -> Iterator[Inputs]:
    """Yield inputs that put values on midpoints of the formats in a region, and just beside.

    One input holds midpoints, as far as its own format does; the others add nothing, half a unit
    in the last place, or next to nothing, and multiply by 1 or by the number after it.
    """
    formats, factors = _targets(region)
    tiny = sorted({Fraction(2) ** -digits for fmt in formats for digits in _beside(fmt)})
    for number in range(count if formats and region.inputs else 0):
        fmt, special = formats[number % len(formats)], rng.choice(region.inputs)
        alone = rng.random() < 0.3  # one midpoint in a row of zeros
        exact = rng.random() < 0.3  # what a product has beyond the midpoint is taken away
        inputs = {}
        for node in region.inputs:
            size = math.prod(node.shape)
            if node is special:
                values = [_tie(fmt, node.format, rng) / rng.choice(factors) for _ in range(size)]
                if alone:
                    place = rng.randrange(max(size, 1))
                    values = [v if i == place else Fraction(0) for i, v in enumerate(values)]
            else:
                last = Fraction(2) ** (1 - node.format.precision)
                step = rng.choice((Fraction(0), Fraction(1), *tiny)) * rng.choice((1, 1, -1))
                values = [rng.choice((1 + last, -last)) if exact else step] * size
            held = [_held(value, node.format) for value in values]
            inputs[node.name] = exact_array(held, node.shape)
        if all(ordinary(inputs[node.name], node.format) for node in region.inputs):
            yield inputs


def _targets(region: Region) -> tuple[list[Format], list[Fraction]]:
    """Return the formats that values are rounded to, and what values are multiplied by."""
    formats: dict[str, Format] = {}
    factors = {Fraction(1)}
    for graph in (region.before, region.after):
        for node in topological(graph.results):
            if isinstance(node, Round):
                formats[node.rounding.format.name] = node.rounding.format
            elif isinstance(node, Const) and isinstance(node.value, Fraction) and node.value:
                factors |= {abs(node.value), 1 / abs(node.value)}
    return [formats[name] for name in sorted(formats)], sorted(factors)


def _beside(fmt: Format) -> tuple[int, ...]:
    """Return exponents of steps from a midpoint near 1: half a unit, less, and much less."""
    return fmt.precision, fmt.precision + 2, 2 * fmt.precision + 3


def _tie(fmt: Format, held: Format, rng: random.Random) -> Fraction:
    """Return a midpoint between two neighbours of a format, or a number right beside it.

    Args:
        fmt: the format.
        held: the format of the input that holds it, if it has the digits.
        rng: draws it.
    """
    sign = rng.choice((1, 1, -1))
    beside = rng.choice((0, 0, 1, -1))
    if fmt.kind == "integer":
        value = rng.randint(0, 5) + Fraction(1, 2)
    else:
        unit = Fraction(2) ** (1 - fmt.precision)
        value = 1 + rng.randint(0, min(5, max(2 ** (fmt.precision - 1) - 1, 0))) * unit
        if held.precision > fmt.precision:
            value += unit / 2
    power = Fraction(2) ** (value.numerator.bit_length() - value.denominator.bit_length())
    if held.precision > fmt.precision + 1:
        value += beside * power * Fraction(2) ** (1 - held.precision)
    return sign * value


def _orders(graph: Graph) -> bool:
    return any(isinstance(n, Reduce) and is_index(n.op) for n in topological(graph.results))


def _crowded(region: Region, rng: random.Random, count: int) -> Iterator[Inputs]:
    """Yield inputs whose elements are few ulp apart: a rounding makes some of them equal."""
    for number in range(count):
        inputs = {}
        for node in region.inputs:
            middle = _full(node.format, 1, rng) * Fraction(2) ** -rng.choice((0, 0, 4, 6))
            step = abs(middle) * Fraction(2) ** (1 - (4, 7, node.format.precision)[number % 3])
            values = [middle + rng.randint(0, 4) * step for _ in range(math.prod(node.shape))]
            held = [_held(value, node.format) for value in values]
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
            held = [_held(value, node.format) for value in values]
            inputs[node.name] = exact_array(held, node.shape)
        if all(ordinary(inputs[node.name], node.format) for node in region.inputs):
            yield inputs


_INTEGERS = (1, 2, 3, -1, -2, 1, 2, 3, 4, 5, 0)
MOST_COUNTED = 1000  # constants up to here are reached by spread significands
_SHORT = (1, 1, 1, 3, 5, 7, -1, -3, 17, 19, 127)  # 7 * 64 and 127 end the grids of 8 bits


@lru_cache(maxsize=64)
def _saturating(fmt: Format) -> Rounding:
    return Rounding.of(fmt, overflow="saturate")


def _held(value: Fraction, fmt: Format) -> Exact:
    held = round_exact(value if fmt.signed else abs(value), _saturating(fmt))
    return Fraction(0) if held == 0 else held


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


def _full(fmt: Format, spread: int, rng: random.Random) -> Fraction:
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


def _simpler(value: Exact, fmt: Format) -> Iterator[Exact]:
    """Yield simpler values that might do as well, the simplest first."""
    if not isinstance(value, Fraction) or value == 0:
        return
    tried = {value}
    sign = 1 if value > 0 else -1
    magnitude = abs(value)
    power = Fraction(2) ** (magnitude.numerator.bit_length() - magnitude.denominator.bit_length())
    options = [Fraction(0), Fraction(1), Fraction(sign), magnitude, sign * power, power]
    for bits in (2, 3, 5):
        quantum = power / 2**bits
        options.append(sign * round(magnitude / quantum) * quantum)
    for option in options:
        rounded = round_exact(option, _saturating(fmt))
        if option not in tried and rounded == option:
            tried.add(option)
            yield option


def graphs(found: Found) -> tuple[Graph, Graph]:
    """Return the two graphs of a witness."""
    return found.region.before, found.region.after
