"""Count the differences of two streams of codes, block by block, in memory of a few megabytes."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

import numpy as np
from numpy.typing import NDArray

from lastbit.comparing.elements import Codes, Element

SMALL: Final = 1 << 16  # distances below are counted one by one, others by powers of two
MOST_WORST: Final = 5
MOST_PLACES: Final = 1 << 20  # rows, or columns, that are counted one by one
BLOCK: Final = 1 << 16  # elements; the temporaries of a block stay in the cache
_SPARSE: Final = 4  # a block of which fewer than one in so many differ is thinned out first

Counts = NDArray[np.int64]


@dataclass(frozen=True, slots=True, order=True)
class Far:
    """Two elements that are far apart.

    Attributes:
        ulps: how far.
        index: counted row by row from 0.
        a: code on the first side.
        b: code on the second side.
    """

    ulps: int
    index: int
    a: int
    b: int


@dataclass(slots=True)
class Tally:
    """What was counted so far.

    Attributes:
        element: the type of both sides.
        columns: size of the last axis, by which rows and columns are told.
        rows: size of the other axes together.
        elements: seen so far.
        other_bits: how many have other bits; all that follow are among them.
        zeros: +0 against -0.
        nans: NaN against NaN with other bits.
        nan_only: NaN on one side only: on the first, on the second.
        infinite: an infinity against another number.
        apart: pairs of finite numbers that differ.
        small: how many of them are apart by each distance below `SMALL`.
        powers: how many have a distance of each number of binary digits.
        worst: those farthest apart, the farthest first.
        by_row: how many with other bits in each row; null for one row, or too many.
        by_column: the same by place in the row; null for one row, or too many columns.
        first: index of the first with other bits, or null.
    """

    element: Element
    columns: int
    rows: int
    elements: int = 0
    other_bits: int = 0
    zeros: int = 0
    nans: int = 0
    nan_only: tuple[int, int] = (0, 0)
    infinite: int = 0
    apart: int = 0
    small: Counts = field(default_factory=lambda: np.zeros(SMALL, np.int64))
    powers: Counts = field(default_factory=lambda: np.zeros(65, np.int64))
    worst: tuple[Far, ...] = ()
    by_row: Counts | None = None
    by_column: Counts | None = None
    first: int | None = None

    def __post_init__(self) -> None:
        if 1 < self.rows <= MOST_PLACES:
            self.by_row = np.zeros(self.rows, np.int64)
        if self.rows > 1 and self.columns <= MOST_PLACES:
            self.by_column = np.zeros(self.columns, np.int64)

    def add(self, a: Codes, b: Codes) -> None:
        """Count the next elements of both sides, flat arrays of one length."""
        start = 0
        while start < len(a):
            end = start + self._next_block()
            self._add(a[start:end], b[start:end])
            start = end

    def _next_block(self) -> int:
        """Return how many elements come next: whole rows, or what is left of a row."""
        left = self.columns - self.elements % self.columns
        if left < self.columns or self.columns > BLOCK:
            return min(left, BLOCK)
        return BLOCK // self.columns * self.columns

    def _add(self, a: Codes, b: Codes) -> None:
        base = self.elements
        self.elements += len(a)
        other = np.not_equal(a, b)
        count = int(np.count_nonzero(other))
        if not count:
            return
        self.other_bits += count
        if self.first is None:
            self.first = base + int(np.argmax(other))
        self._count_places(base, other)
        at = None
        if _SPARSE * count < len(a):
            at = np.flatnonzero(other)
            a, b = a[at], b[at]
        ulps = self.element.distances(a, b)
        ordinary = self._take_special(a, b, ulps, len(a) - count if at is None else 0)
        self._count_distances(ulps if ordinary is None else ulps[ordinary])
        if ordinary is not None:
            ulps[~ordinary] = 0
        self._keep_worst(base, at, a, b, ulps)

    def _take_special(self, a: Codes, b: Codes, ulps: Codes, same: int) -> NDArray[np.bool_] | None:
        """Count NaN, infinities and zeros of both signs among pairs of which `same` are the same.

        Returns:
            where both are finite; null for everywhere.
        """
        none = len(ulps) - int(np.count_nonzero(ulps))
        if not self.element.special(a) and not self.element.special(b):
            self.zeros += none - same
            return None
        other = np.not_equal(a, b)
        nan_a, nan_b = self.element.nan(a), self.element.nan(b)
        infinite = self.element.infinite(a) | self.element.infinite(b)
        number = ~(nan_a | nan_b)
        self.nans += int((nan_a & nan_b & other).sum())
        self.nan_only = (
            self.nan_only[0] + int((nan_a & ~nan_b).sum()),
            self.nan_only[1] + int((nan_b & ~nan_a).sum()),
        )
        self.infinite += int((infinite & number & other).sum())
        finite = number & ~infinite
        self.zeros += int((finite & other & (ulps == 0)).sum())
        return np.asarray(finite)

    def _count_places(self, base: int, other: NDArray[np.bool_]) -> None:
        row, column = divmod(base, self.columns)
        if len(other) > self.columns - column:  # whole rows
            grid = other.reshape(-1, self.columns)
            if self.by_row is not None:
                self.by_row[row : row + len(grid)] += np.count_nonzero(grid, axis=1)
            if self.by_column is not None:
                self.by_column += np.count_nonzero(grid, axis=0)
            return
        if self.by_row is not None:
            self.by_row[row] += np.count_nonzero(other)
        if self.by_column is not None:
            self.by_column[column : column + len(other)] += other

    def _count_distances(self, ulps: Codes) -> None:
        large = ulps[ulps >= SMALL] if ulps.dtype.itemsize > 2 else ulps[:0]
        small = ulps[ulps < SMALL] if len(large) else ulps
        counts = np.bincount(small, minlength=1)
        counts[0] = 0  # the same, or zeros of both signs
        self.small[: len(counts)] += counts
        self.powers += _by_digits(large)
        self.apart += int(counts.sum()) + len(large)

    def _keep_worst(
        self, base: int, at: NDArray[np.intp] | None, a: Codes, b: Codes, ulps: Codes
    ) -> None:
        least = self.worst[-1].ulps if len(self.worst) == MOST_WORST else 0
        if int(ulps.max(initial=0)) <= least:
            return
        above = np.flatnonzero(ulps > ulps.dtype.type(least))
        if len(above) > MOST_WORST:  # the farthest, the earlier of equal ones first
            order = np.argsort(~ulps[above], kind="stable")[:MOST_WORST]
            above = above[order]
        found = [
            Far(int(ulps[i]), base + int(i if at is None else at[i]), int(a[i]), int(b[i]))
            for i in above
        ]
        everything = sorted((*self.worst, *found), key=lambda far: (-far.ulps, far.index))
        self.worst = tuple(everything[:MOST_WORST])

    @property
    def histogram(self) -> tuple[int, ...]:
        """How many finite pairs are apart by 0, 1, 2 to 3, 4 to 7 ... ulp: by binary digits."""
        counts = self.powers.copy()
        for digits in range(1, SMALL.bit_length()):
            counts[digits] += self.small[1 << (digits - 1) : 1 << digits].sum()
        counts[0] = self.numbers - self.apart
        last = int(np.flatnonzero(counts).max(initial=0))
        return tuple(int(count) for count in counts[: last + 1])

    @property
    def numbers(self) -> int:
        """Pairs that have a distance: all but NaN and infinities that differ."""
        return self.elements - self.nans - sum(self.nan_only) - self.infinite


def _by_digits(values: Codes) -> Counts:
    counts = np.zeros(65, np.int64)
    values = values.astype(np.uint64)
    for digits in range(SMALL.bit_length(), 65):
        if not len(values):
            break
        rest = np.asarray(values >> values.dtype.type(digits) > 0) if digits < 64 else values < 0
        counts[digits] = len(values) - int(rest.sum())
        values = values[rest]
    return counts
