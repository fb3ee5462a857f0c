"""Merge orders: every result that a set of partial sums can reach.

A dynamic program over the subsets of the partial sums: what a subset reaches follows from what its
parts reach, so equal intermediate results are carried on once, with the number of orders that lead
to them. An order is a left fold (n! of them: atomic additions, or an arrival order); a tree is an
unordered binary tree ((2n - 3)!! of them).
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from lastbit.errors import LastbitError
from lastbit.formats import Exact, as_exact, bits_text, identical
from lastbit.round_array import round_array
from lastbit.rounding import Mode, Rounding, round_exact

Shape = Literal["orders", "trees"]
Ints = npt.NDArray[np.int64]
Values = npt.NDArray[np.floating[Any]]

# Beyond these the number of orders does not fit int64.
MOST_PARTIALS: dict[Shape, int] = {"orders": 20, "trees": 18}
CHUNK = 1 << 16  # sums computed at once; they stay in the cache
SAMPLES = 1 << 16  # orders drawn where the search is stopped


class OrdersError(LastbitError):
    """Partial sums whose merge orders cannot be searched.

    Attributes:
        reason: why not.
        remedy: what to do.
    """

    def __init__(self, reason: str, remedy: str) -> None:
        self.reason, self.remedy = reason, remedy
        super().__init__(f"merge orders: {reason}. {remedy}")


@dataclass(frozen=True, slots=True)
class Result:
    """One result.

    Attributes:
        value: the result, exact.
        bits: its code.
        count: the orders that lead to it; None where the search was stopped.
    """

    value: Exact
    bits: str
    count: int | None


@dataclass(frozen=True, slots=True)
class MergeOrders:
    """What the partial sums can reach.

    Attributes:
        shape: `orders` for left folds, `trees` for binary trees.
        results: the results found, from the least to the greatest; NaN last.
        total: the number of orders that there are.
        complete: whether there are no other results.
    """

    shape: Shape
    results: tuple[Result, ...]
    total: int
    complete: bool

    def __str__(self) -> str:
        count = f"{'' if self.complete else 'at least '}{len(self.results)}"
        plural = "result" if len(self.results) == 1 else "results"
        shape = self.shape[:-1] if self.total == 1 else self.shape
        return f"{count} {plural} over {self.total:,} {shape}"


def merge_orders(
    partials: Sequence[Exact],
    rounding: Rounding,
    shape: Shape = "orders",
    *,
    seconds: float = 60.0,
    most: int = 1 << 24,
    seed: int = 0,
) -> MergeOrders:
    """Return every result that partial sums can reach, and the orders that lead to each.

    Orders that differ only in which of the first two partial sums comes first are counted both.
    Equal partial sums are told apart. Nothing is added to the first partial sum.

    Args:
        partials: at least one value of the format.
        rounding: the rounding of each addition, to a binary format of at most 53 digits.
        shape: all left folds, or all binary trees.
        seconds: when to stop.
        most: how many intermediate results to hold.
        seed: selects the orders that are drawn where the search is stopped.

    Returns:
        The results; where a limit stopped the search, those of some orders, without counts.

    Raises:
        OrdersError: no partial sum, one that is no value of the format, or a rounding that has no
            array form.
    """
    exact = [as_exact(x) for x in partials]
    _check(exact, rounding)
    wide = rounding.format.short == "f64"
    doubles = np.array([float(x) for x in exact])
    values: Values = doubles if wide else doubles.astype(np.float32)
    n = len(values)
    total = math.factorial(n) if shape == "orders" else math.prod(range(1, 2 * n - 2, 2))
    found = None
    if n <= MOST_PARTIALS[shape]:
        found = _search(values, rounding, shape, time.monotonic() + seconds, most)
    if found is None:
        drawn = _drawn(values, rounding, shape, seed)
        return MergeOrders(shape, _results(drawn, None, rounding), total, complete=False)
    return MergeOrders(shape, _results(*found, rounding), total, complete=True)


def _check(partials: Sequence[Exact], rounding: Rounding) -> None:
    fmt = rounding.format
    if not partials:
        raise OrdersError("there are no partial sums", "Give at least one.")
    for value in partials:
        if not identical(round_exact(value, Rounding.of(fmt)), value):
            raise OrdersError(f"{value} is no value of {fmt.name}", "Round it first.")
    plain = rounding == Rounding.of("f64")
    if (
        fmt.kind != "float"
        or rounding.mode is Mode.STOCHASTIC
        or (fmt.short == "f64" and not plain)
    ):
        remedy = "Use a float format of at most 24 digits, or f64 to nearest even."
        raise OrdersError(f"sums in `{rounding}` have no array form", remedy)


def _results(values: Values, counts: Ints | None, rounding: Rounding) -> tuple[Result, ...]:
    exact = [as_exact(float(v)) for v in values]
    found = [
        Result(v, bits_text(v, rounding.format), None if counts is None else int(counts[i]))
        for i, v in enumerate(exact)
    ]
    return tuple(sorted(found, key=_rank))


def _rank(result: Result) -> tuple[bool, Exact, float]:
    value = result.value
    return value != value, value, math.copysign(1, value)  # -0 before +0


def _sums(a: Values, b: Values, rounding: Rounding) -> Values:
    """Return the rounded sums of two arrays, in the type of the arrays."""
    with np.errstate(all="ignore"):
        if rounding in (Rounding.of("f32"), Rounding.of("f64")):
            sums = a + b
        else:
            # A binary64 sum rounded to odd, by its error (Knuth, TAOCP vol. 2, sec. 4.2.2,
            # theorem B), then rounded to at most 24 digits: as if rounded once (Boldo and
            # Melquiond, IEEE Trans. Comput. 57(4), 2008).
            x, y = a.astype(np.float64), b.astype(np.float64)
            s = x + y
            part = s - x
            error = (x - (s - part)) + (y - part)
            even = (s.view(np.int64) & 1) == 0
            toward = np.nextafter(s, np.copysign(np.inf, error))
            odd = np.where(even & (error != 0) & np.isfinite(s), toward, s)
            sums = round_array(odd, rounding).astype(a.dtype)
        sums[np.isnan(sums)] = np.nan  # one code for every NaN
    return sums


def _search(
    values: Values, rounding: Rounding, shape: Shape, deadline: float, most: int
) -> tuple[Values, Ints] | None:
    """Return the distinct results of all partial sums with their counts, or None at a limit."""
    n = len(values)
    reached = _Reached(values)
    sizes = np.array([mask.bit_count() for mask in range(1 << n)])
    for size in range(2, n + 1):
        subsets = np.flatnonzero(sizes == size)
        pieces, held = [], len(reached.counts)
        for whole, part in _divisions(subsets, size, n, shape):
            for chunk in reached.chunks(part, whole ^ part):
                pieces.append(reached.merged(whole, part, chunk, rounding))
                held += len(pieces[-1][-1])
                if held > most or time.monotonic() > deadline:
                    return None
        reached.add(*_distinct(*(np.concatenate(column) for column in zip(*pieces, strict=True))))
    return reached.of((1 << n) - 1)


def _divisions(subsets: Ints, size: int, n: int, shape: Shape) -> Iterator[tuple[Ints, Ints]]:
    """Yield arrays of subsets and of the part of each that is added to the rest.

    For orders the rest is one element; for trees the part holds the subset's least element, so
    that each division into two comes once.
    """
    bits = np.array([[1 << i for i in range(n) if mask >> i & 1] for mask in subsets.tolist()])
    if shape == "orders":
        yield np.repeat(subsets, size), (subsets[:, None] ^ bits).ravel()
        return
    choices = np.arange((1 << (size - 1)) - 1)
    chosen = choices[:, None] >> np.arange(size - 1) & 1
    step = max(1, CHUNK // len(choices))
    for i in range(0, len(subsets), step):
        parts = bits[i : i + step, :1] + bits[i : i + step, 1:] @ chosen.T
        yield np.repeat(subsets[i : i + step], len(choices)), parts.ravel()


class _Reached:
    """The distinct results of every subset so far: those of subset s begin at start[s]."""

    def __init__(self, values: Values) -> None:
        n = len(values)
        self.values = values
        self.counts = np.ones(n, np.int64)
        self.start = np.zeros(1 << n, np.int64)
        self.length = np.zeros(1 << n, np.int64)
        singles = 1 << np.arange(n)
        self.start[singles], self.length[singles] = np.arange(n), 1

    def chunks(self, left: Ints, right: Ints) -> Iterator[slice]:
        """Yield slices of pairs of subsets that need about CHUNK sums each."""
        ends = np.cumsum(self.length[left] * self.length[right])
        first = 0
        while first < len(left):
            done = ends[first - 1] if first else 0
            last = max(first + 1, int(np.searchsorted(ends, done + CHUNK, side="right")))
            yield slice(first, last)
            first = last

    def merged(
        self, whole: Ints, part: Ints, chunk: slice, rounding: Rounding
    ) -> tuple[Ints, Values, Ints]:
        """Add every result of each part to every result of the rest of its subset."""
        whole, part = whole[chunk], part[chunk]
        rest = whole ^ part
        columns = self.length[rest]
        sums = self.length[part] * columns
        pair = np.repeat(np.arange(len(whole)), sums)
        within = np.arange(len(pair)) - np.repeat(np.cumsum(sums) - sums, sums)
        row, column = np.divmod(within, columns[pair])
        i, j = self.start[part][pair] + row, self.start[rest][pair] + column
        results = _sums(self.values[i], self.values[j], rounding)
        return _distinct(whole[pair], results, self.counts[i] * self.counts[j])

    def add(self, subsets: Ints, values: Values, counts: Ints) -> None:
        """Append the distinct results of subsets, sorted by subset."""
        found, first, length = np.unique(subsets, return_index=True, return_counts=True)
        self.start[found], self.length[found] = len(self.counts) + first, length
        self.values = np.concatenate([self.values, values])
        self.counts = np.concatenate([self.counts, counts])

    def of(self, subset: int) -> tuple[Values, Ints]:
        """Return the results of a subset and their counts."""
        where = slice(self.start[subset], self.start[subset] + self.length[subset])
        return self.values[where], self.counts[where]


def _distinct(subsets: Ints, values: Values, counts: Ints) -> tuple[Ints, Values, Ints]:
    """Return each (subset, result) once, sorted, with the sum of its counts."""
    codes = values.view(np.uint32 if values.dtype == np.float32 else np.uint64)
    if codes.dtype == np.uint32:
        order = np.argsort(subsets << 32 | codes.astype(np.int64))
    else:
        order = np.lexsort((codes, subsets))
    subsets, codes = subsets[order], codes[order]
    new = np.ones(len(codes), bool)
    new[1:] = (subsets[1:] != subsets[:-1]) | (codes[1:] != codes[:-1])
    first = np.flatnonzero(new)
    return subsets[first], values[order][first], np.add.reduceat(counts[order], first)


def _drawn(values: Values, rounding: Rounding, shape: Shape, seed: int) -> Values:
    """Return the distinct results of orders or trees drawn at random, and of sorted orders."""
    random = np.random.default_rng(seed)
    n = len(values)
    samples = max(1, min(SAMPLES, (1 << 23) // n))
    work = random.permuted(np.tile(values, (samples, 1)), axis=1)
    by_magnitude = values[np.argsort(np.abs(values), kind="stable")]
    for i, order in enumerate((values, by_magnitude, by_magnitude[::-1])):
        work[i % samples] = order
    rows = np.arange(samples)
    if shape == "orders":
        for i in range(1, n):
            work[:, 0] = _sums(work[:, 0], work[:, i], rounding)
    else:
        for left in range(n, 1, -1):  # the last of `left` values is added to another of them
            other = random.integers(0, left - 1, samples)
            work[rows, other] = _sums(work[rows, other], work[:, left - 1], rounding)
    return _distinct(np.zeros(samples, np.int64), work[:, 0].copy(), np.ones(samples, np.int64))[1]
