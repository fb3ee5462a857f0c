"""Inputs that put values on midpoints of the formats in a region, and just beside."""

from __future__ import annotations

import math
import random
from collections.abc import Iterator
from fractions import Fraction

from lastbit.formats import Format
from lastbit.graph import Const, Round, topological
from lastbit.interpret.exact import exact_array, ordinary
from lastbit.verify.held import held_in
from lastbit.verify.region import Region
from lastbit.verify.runs import Inputs


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
            held = [held_in(value, node.format) for value in values]
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
