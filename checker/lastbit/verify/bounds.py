"""Rigorous bounds on the difference of two graphs that compute the same real function.

A value computed with roundings d1, d2 ... on the way from an input has an error of at most
d / (1 - d) times its scale, the sum of absolute terms; d is the sum of the roundings (Higham,
Accuracy and Stability of Numerical Algorithms, 2nd ed., lemma 3.1 and sec. 4.2). The longest way
counts, on each side; two sides of one function differ by at most the sum of both bounds. This holds
on ordinary runs: nothing overflows, and nothing nonzero lies below the smallest normal number.

A step of a matrix unit with L products cuts each of L + 1 terms at 2^-F of the largest, and the
result at its last digit (`lastbit.machines.step`).
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from fractions import Fraction
from functools import lru_cache
from typing import Final

from lastbit.choices import is_index
from lastbit.errors import LastbitError
from lastbit.formats import Format, format_of
from lastbit.graph import Const, Input, Map, Node, Reduce, Round, View, topological
from lastbit.machines import unit_of
from lastbit.records import Bound
from lastbit.rounding import Mode, Rounding
from lastbit.schedule import Schedule, fold

Range = tuple[Fraction, Fraction]

POSITIVE: Final = ("exp", "exp2", "sigmoid", "softplus", "sqrt", "rsqrt", "abs", "relu")
ROOTS: Final = ("sqrt", "rsqrt")
LINEAR: Final = ("add", "sub", "max", "min", "neg", "abs", "relu", "clamp")


class NoBoundError(LastbitError):
    """No bound is derived; the text says why."""


def bound_of(before: Node, after: Node, fmt: Format, ranges: Mapping[str, Range]) -> Bound:
    """Return a bound on the difference of two values of a format.

    Args:
        before: the value on one side.
        after: on the other; the same function of real numbers, with the same absolute terms.
        fmt: the format of both.
        ranges: the declared ranges of inputs.
    """
    try:
        sides = [_Side(node, ranges) for node in (before, after)]
        errors = [_relative(side.roundoffs[side.root.key]) for side in sides]
    except NoBoundError as error:
        return Bound(None, None, str(error))
    times = sum(errors)
    if not all(side.clean[side.root.key] for side in sides):
        return Bound(times, None, "cancellation")
    return Bound(times, times / (1 - max(errors)) * 2.0**fmt.precision, "all terms have one sign")


def _relative(roundoff: float) -> float:
    if roundoff >= 0.5:
        raise NoBoundError("so many roundings may lose every digit")
    return roundoff / (1 - roundoff)


class _Side:
    """What holds for every value that `root` depends on.

    Attributes:
        roundoffs: the sum of the relative roundings on the longest way from an input.
        signs: 1 or -1 where all elements have that sign, or are zero; else 0.
        clean: whether no sum on the way can cancel, so that the scale is the magnitude.
    """

    def __init__(self, root: Node, ranges: Mapping[str, Range]) -> None:
        self.root, self.ranges = root, ranges
        self.roundoffs: dict[bytes, float] = {}
        self.signs: dict[bytes, int] = {}
        self.clean: dict[bytes, bool] = {}
        for node in topological([root]):
            self.signs[node.key] = self._sign(node)
            self.clean[node.key] = self._is_clean(node)
            self.roundoffs[node.key] = self._roundoff(node)

    def _sign(self, node: Node) -> int:
        signs = [self.signs[arg.key] for arg in node.args]
        match node:
            case Reduce(op=op) if is_index(op):
                return 1
            case Input(name=name):
                low, high = self.ranges.get(name, (Fraction(-1), Fraction(1)))
                return 1 if low >= 0 else -1 if high <= 0 else 0
            case Const(value=value):
                if isinstance(value, str):
                    return 1
                return 1 if value >= 0 else -1 if value < 0 else 0
            case Map(fn="mul", xs=(x, y)) if x.key == y.key:
                return 1
            case Map(fn="mul" | "div"):
                return signs[0] * signs[1]
            case Map(fn="neg"):
                return -signs[0]
            case Map(fn="sub"):
                return signs[0] if signs[0] == -signs[1] else 0
            case Map(fn="add" | "max" | "min"):
                return signs[0] if signs[0] == signs[1] else 0
            case Map(fn=fn):
                return 1 if fn in POSITIVE else 0
        return signs[0] if len(set(signs)) == 1 else 0

    def _is_clean(self, node: Node) -> bool:
        clean = all(self.clean[arg.key] for arg in node.args)
        match node:
            case Reduce(op=op) if is_index(op):
                return True
            case Map(fn="add" | "sub") | Reduce(op="sum"):
                return clean and self.signs[node.key] != 0
            case Map(fn="max") | Reduce(op="max"):
                return clean and self.signs[node.key] > 0
            case Map(fn="min") | Reduce(op="min"):
                return clean and self.signs[node.key] < 0
        return clean

    def _roundoff(self, node: Node) -> float:
        roundoffs = [self.roundoffs[arg.key] for arg in node.args]
        match node:
            case Input() | Const():
                return 0.0
            case View():
                return max(roundoffs)
            case Round(rounding=rounding):
                return roundoffs[0] + unit(rounding)
            case Reduce(op="sum", schedule=Schedule() as schedule, acc=Rounding() as acc):
                return roundoffs[0] + _longest(schedule, node.length, acc)
            case Reduce(op=op):
                if is_index(op) and roundoffs[0]:
                    raise NoBoundError("none is derived for an index of a rounded value")
                return roundoffs[0]
        assert isinstance(node, Map)
        return self._mapped(node, roundoffs)

    def _mapped(self, node: Map, roundoffs: list[float]) -> float:
        if not any(roundoffs):
            return 0.0
        if node.fn == "clamp" and any(roundoffs[1:]):
            raise NoBoundError("none is derived through `clamp` to rounded limits")
        if node.fn in LINEAR:
            return max(roundoffs)
        if node.fn == "mul":
            return sum(roundoffs)
        if node.fn == "div" and (not roundoffs[1] or self.clean[node.xs[1].key]):
            return sum(roundoffs)
        if node.fn in ROOTS and self.clean[node.xs[0].key]:
            return roundoffs[0]
        if node.fn == "select" and not roundoffs[0]:
            return max(roundoffs[1:])
        raise NoBoundError(f"none is derived through `{node.fn}` of a rounded value")


def unit(rounding: Rounding) -> float:
    """Return the largest relative error of a rounding, on ordinary runs."""
    fmt = rounding.format
    if fmt.is_grid:
        raise NoBoundError(f"a quantization to {fmt.short} has no relative bound")
    nearest = rounding.mode in (Mode.NEAREST_EVEN, Mode.NEAREST_AWAY)
    return 2.0**-fmt.precision * (1 if nearest else 2)


@lru_cache(maxsize=256)
def _longest(schedule: Schedule, terms: int, acc: Rounding) -> float:
    way = fold(schedule, terms, acc.format.short, _Ways(acc))
    return 0.0 if way is None else way


class _Ways:
    """The algebra of the longest way: the sum of roundings behind an element; None for zero."""

    def __init__(self, acc: Rounding) -> None:
        self.units = {acc.format.short: unit(acc)}

    def _unit(self, fmt: str) -> float:
        if fmt not in self.units:
            self.units[fmt] = unit(Rounding.of(fmt))
        return self.units[fmt]

    def zero(self, fmt: str) -> float | None:
        return None

    def leaf(self, i: int) -> float | None:
        return 0.0

    def add(self, a: float | None, b: float | None, fmt: str) -> float | None:
        return _most([a, b], self._unit(fmt))

    def convert(self, value: float | None, fmt: str) -> float | None:
        return _most([value], self._unit(fmt))

    def fused(
        self, acc: float | None, terms: list[float | None], machine: str, fmt: str
    ) -> float | None:
        table = unit_of(machine)
        cut = (table.width + 1) * 2.0**-table.fraction_bits
        digits = min(table.result_bits, format_of(fmt).precision - 1)
        return _most([acc, *terms], cut + 2.0**-digits)

    def any_order(self, values: list[float | None], fmt: str) -> float | None:
        return _most(values, len(values) * self._unit(fmt))


def _most(ways: list[float | None], more: float) -> float | None:
    known = [way for way in ways if way is not None]
    return math.nextafter(max(known) + more, math.inf) if known else None
