"""Functions that add in a known order, on one vector or on many rows, and random schedules."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from hypothesis import strategies as st

from lastbit.formats import FORMATS
from lastbit.interpret.array import ArrayDomain, values_of
from lastbit.interpret.tensors import Held
from lastbit.rounding import Rounding
from lastbit.schedule import Lanes, Pairwise, Schedule, Seq, Split, fold

Array = np.ndarray[Any, np.dtype[Any]]


def replayed(schedule: Schedule, x: Array, fmt: str, acc: str) -> Array:
    """Return the sums of rows by a schedule, as the array domain computes them, in binary64."""
    rows = np.atleast_2d(x).astype(np.float64)
    terms = Held(rows, FORMATS[fmt])
    return values_of(ArrayDomain({}).tree(terms, 1, schedule, Rounding.of(acc)))[:, 0]


def summed(schedule: Schedule, fmt: str) -> Callable[[Array], Any]:
    """Return a function that adds by a schedule, with accumulators of the format it is given."""

    def total(x: Array) -> Any:
        found = replayed(schedule, x, fmt, fmt)
        return found[0] if x.ndim == 1 else found

    return total


class Chain:
    """An algebra of `fold` on float64 rows: binary32 sums, and steps that cut terms and results.

    A step cuts every term to a multiple of 2^(E - kept), E the largest exponent, adds exactly, and
    cuts the sum to `digits` digits.
    """

    def __init__(self, x: Array, kept: int, digits: int) -> None:
        self.rows, self.kept, self.digits = np.atleast_2d(x).astype(np.float64), kept, digits

    def zero(self, fmt: str) -> Array:
        """Return zeros."""
        return np.zeros(len(self.rows))

    def leaf(self, i: int) -> Array:
        """Return element i of each row."""
        return self.rows[:, i]

    def add(self, a: Array, b: Array, fmt: str) -> Array:
        """Return sums in binary32."""
        return (a + b).astype(np.float32).astype(np.float64)

    def convert(self, value: Array, fmt: str) -> Array:
        """Return the value as it is."""
        return value

    def fused(self, acc: Array, terms: list[Array], machine: str, fmt: str) -> Array:
        """Return the result of one step."""
        values = np.array([acc, *terms])
        exponent = np.frexp(np.abs(values).max(0))[1] - 1
        total = np.trunc(np.ldexp(values, self.kept - exponent)).sum(0)
        low = np.maximum(np.frexp(np.abs(total))[1] - self.digits, 0)
        return np.ldexp(np.trunc(np.ldexp(total, -low)), low + exponent - self.kept)

    def any_order(self, values: list[Array], fmt: str) -> Array:
        """Refuse."""
        raise AssertionError("no test adds in any order")


def stepped(schedule: Schedule, n: int, kept: int = 25, digits: int = 24) -> Callable[[Array], Any]:
    """Return a function that adds n elements by a schedule with steps of a matrix unit."""

    def total(x: Array) -> Any:
        found = fold(schedule, n, "f32", Chain(x, kept, digits))
        return found[0] if x.ndim == 1 else found

    return total


def by_merges(merges: list[tuple[int, int]]) -> Callable[[Array], Any]:
    """Return a function that adds pairs of earlier values, in the format it is given."""

    def total(x: Array) -> Any:
        values = list(np.atleast_2d(x).T)
        for a, b in merges:
            values.append(values[a] + values[b])
        return values[-1][0] if x.ndim == 1 else values[-1]

    return total


@st.composite
def random_merges(draw: st.DrawFn, most: int = 40) -> list[tuple[int, int]]:
    """Return the merges of a random explicit tree."""
    n = draw(st.integers(2, most))
    nodes, merges = list(range(n)), []
    while len(nodes) > 1:
        a, b = (nodes.pop(draw(st.integers(0, len(nodes) - 1))) for _ in range(2))
        merges.append((a, b))
        nodes.append(n + len(merges) - 1)
    return merges


def schedules() -> st.SearchStrategy[Schedule]:
    """Schedules of binary steps, nested up to twice."""
    plain = st.one_of(st.just(Seq()), st.builds(Pairwise, st.integers(1, 9)))

    def nested(parts: st.SearchStrategy[Schedule]) -> st.SearchStrategy[Schedule]:
        lanes = st.builds(Lanes, st.integers(1, 9), parts, parts)
        return st.one_of(
            lanes,
            st.builds(
                lambda n, tile, inner, outer: Split(n, tile=tile, inner=inner, outer=outer),
                *(st.integers(1, 6), st.integers(1, 5), parts, parts),
            ),
            st.builds(
                lambda size, inner, outer: Split(size=size, inner=inner, outer=outer),
                *(st.integers(1, 20), parts, parts),
            ),
        )

    return st.recursive(plain, nested, max_leaves=4)
