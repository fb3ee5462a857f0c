"""On which inputs does one side misbehave and the other not?

Each class of special inputs is put to both sides in the exact domain; what counts is the kind
of the result, not its digits: NaN, infinite, zero of which sign, lost below the normal range.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np

from lastbit.change import Change
from lastbit.choices import holds_indices
from lastbit.errors import LastbitError
from lastbit.formats import NEGATIVE_ZERO, Exact, Format, identical
from lastbit.graph import Input
from lastbit.interpret.exact import Objects, exact_array, ordinary
from lastbit.interpret.policy import Policy
from lastbit.rounding import Rounding, round_exact
from lastbit.verify.orders import in_order
from lastbit.verify.region import Region
from lastbit.verify.runs import Inputs, Run, run

BETWEEN = Fraction(640)  # what scales round to powers of two below
EMPTY_ROW = "a row of -inf (all masked)"


@dataclass(frozen=True, slots=True)
class Misbehaviour:
    """A class of inputs on which exactly one side misbehaves.

    Attributes:
        kind: `overflow`, `inf`, `nan`, `saturate`, `flush` or `signed-zero`.
        side: `before` or `after`.
        inputs: the class, in words.
        region: the two graphs.
        values: one input of the class.
        output: the result that shows it.
        index: where.
        before: the value there before.
        after: the value there afterwards.
    """

    kind: str
    side: str
    inputs: str
    region: Region
    values: Inputs
    output: str
    index: tuple[int, ...]
    before: Exact
    after: Exact


def misbehaviours(regions: Iterable[Region], change: Change) -> list[Misbehaviour]:
    """Return the classes of inputs on which only one side misbehaves, each kind once a side.

    Args:
        regions: the region at small sizes; earlier ones give simpler witnesses.
        change: the kind of change on ordinary runs. If they give the same bits, another digit in
            a run that is not ordinary was lost below the normal range; if another function is
            computed, only NaN and infinities that it brings say more than that.
    """
    found: dict[tuple[str, str], Misbehaviour] = {}
    for region in map(in_order, regions):
        for words, inputs in special_inputs(region):
            try:
                shown = list(misbehaviours_on(region, words, inputs, change))
            except LastbitError:
                continue
            for one in shown:
                found.setdefault((one.kind, one.side), one)
    return sorted(found.values(), key=lambda m: (m.side, m.kind))


def misbehaviours_on(
    region: Region, words: str, inputs: Inputs, change: Change
) -> Iterator[Misbehaviour]:
    """Yield where one side misbehaves on an input and the other does not.

    Args:
        region: the two graphs; sums in any order are in one.
        words: the class of the input; it names infinities and NaN where there are any.
        inputs: the input.
        change: the kind of change on ordinary runs.

    Raises:
        LastbitError: a side cannot be evaluated.
    """
    both = run(region, inputs, Policy.BITS)
    given = (ordinary(inputs[node.name], node.format) for node in region.inputs)
    if both.ordinary and all(given):
        if change < Change.MATH and (clip := _clipped(region, words, inputs, both)):
            yield clip
        return
    for output, x, y in zip(region.outputs, both.before, both.after, strict=True):
        chosen = holds_indices(region.before.values[output])
        for index in np.ndindex(*x.shape):
            old, new = _pair(x, y, index)
            verdict = _judge(old, new, words, both, change, chosen)
            if verdict is not None:
                kind, side = verdict
                yield Misbehaviour(kind, side, words, region, inputs, output, index, old, new)


def _clipped(region: Region, words: str, inputs: Inputs, both: Run) -> Misbehaviour | None:
    """Return where the results differ, if only one side saturates on an ordinary run."""
    before, after = both.saturated
    place = both.difference(identical) if before != after else None
    if place is None:
        return None
    output, index = place
    old, new = both.at(output, index)
    side = "before" if before else "after"
    name = region.outputs[output]
    return Misbehaviour("saturate", side, words, region, inputs, name, index, old, new)


def _pair(x: Objects, y: Objects, index: tuple[int, ...]) -> tuple[Any, Any]:
    return x[index], y[index]


def _judge(
    x: Exact, y: Exact, words: str, both: Run, change: Change, chosen: bool
) -> tuple[str, str] | None:
    """Return the kind of a difference and the side that misbehaves, or None.

    Args:
        x: a value of the result before.
        y: the value afterwards.
        words: the class of inputs.
        both: the runs.
        change: the kind of change on ordinary runs.
        chosen: whether the values are indices, of which 0 is one like any other.
    """
    if identical(x, y):
        return None
    sides = (("before", x, y), ("after", y, x))
    for side, bad, good in sides:
        if _is_nan(bad) and not _is_nan(good):
            return "nan", side
    for side, bad, good in sides:
        if _is_inf(bad) and not _is_inf(good):
            return ("inf" if "inf" in words else "overflow"), side
    if change >= Change.MATH:
        return None
    if x == 0 and y == 0:
        return "signed-zero", "before" if isinstance(x, float) else "after"
    if "inf" in words or "NaN" in words:
        return None
    for side, bad, good in sides:
        if bad == 0 and good != 0 and not chosen:
            return "flush", side
    if change == Change.BITWISE:
        return "flush", "after" if both.ordinary_before else "before"
    return None


def _is_nan(x: Exact) -> bool:
    return isinstance(x, float) and math.isnan(x)


def _is_inf(x: Exact) -> bool:
    return isinstance(x, float) and math.isinf(x)


def special_inputs(region: Region) -> Iterator[tuple[str, Mapping[str, Objects]]]:
    """Yield classes of special inputs in words, each with one input."""
    nodes = region.inputs
    plain = {node.name: _filled(node, Fraction(1)) for node in nodes}
    for node in nodes:
        for words, value in _special_values(node.format):
            for where, array in _placed(node, value):
                yield f"{where}{words} in `{node.name}`", {**plain, node.name: array}
    for words, pick in _ALL:
        arrays = {}
        for node in nodes:
            arrays[node.name] = _filled(node, pick(node.format))
        yield f"{words} in all inputs", arrays


def _special_values(fmt: Format) -> Iterator[tuple[str, Exact]]:
    yield "zeros", Fraction(0)
    if fmt.has_negative_zero:
        yield "negative zeros", NEGATIVE_ZERO
    if fmt.kind == "float":
        yield "subnormals", fmt.min_subnormal
        yield "the smallest normals", fmt.min_normal
        large = Fraction(100)
        if fmt.max_finite > large:
            yield "large values", large
            yield "large negative values", -large
        # 1.25 x 2^9: a scale of 1.25 / 0.875 powers of two, which rounds to one and clips.
        if fmt.max_finite > BETWEEN:
            yield f"values of {BETWEEN}", BETWEEN
    yield "the largest finite values", fmt.max_finite
    if fmt.signed:
        yield "the lowest finite values", fmt.min_finite
    if fmt.has_inf:
        yield "inf", math.inf
        yield "-inf", -math.inf
    if fmt.has_nan:
        yield "NaN", math.nan


def _tiny(fmt: Format) -> Exact:
    """Return a value with all digits whose square loses some below the normal range."""
    if fmt.kind != "float":
        return Fraction(1)
    ulp = Fraction(2) ** (1 - fmt.precision)
    return max((1 + ulp) * Fraction(2) ** ((fmt.emin - 2 * fmt.precision) // 2), fmt.min_subnormal)


def _huge(fmt: Format) -> Exact:
    """Return a value whose square overflows."""
    return Fraction(2) ** (fmt.emax // 2 + 1) if fmt.kind == "float" else fmt.max_finite


_ALL: tuple[tuple[str, Any], ...] = (
    ("zeros", lambda fmt: Fraction(0)),
    ("tiny values", _tiny),
    ("huge values", _huge),
    ("the largest finite values", lambda fmt: fmt.max_finite),
    ("-inf", lambda fmt: -math.inf if fmt.has_inf else Fraction(1)),
)


def _filled(node: Input, value: Exact) -> Objects:
    held = round_exact(value, Rounding.of(node.format))
    return exact_array([held] * math.prod(node.shape), node.shape)


def _placed(node: Input, value: Exact) -> Iterator[tuple[str, Objects]]:
    """Yield the value everywhere, in the first row, and in one element."""
    yield "", _filled(node, value)
    if math.prod(node.shape) <= 1:
        return
    if len(node.shape) >= 2 and node.shape[0] > 1:
        array = _filled(node, Fraction(1))
        array[0] = value
        yield "a row of ", array
    array = _filled(node, Fraction(1))
    array[(0,) * len(node.shape)] = value
    yield "single ", array
