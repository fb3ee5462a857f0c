"""Choices along an axis, from enclosures: which element is the largest, the second largest ..."""

from __future__ import annotations

from typing import Any

import numpy as np

from lastbit.choices import Choice, ranked
from lastbit.formats import as_exact
from lastbit.interpret.intervals import Floats, Interval, exactly
from lastbit.interpret.tensors import ArrayLimitError, Indices, Objects, Tensor
from lastbit.reals import compare

MOST_TERMS = 1 << 20  # elements that are computed again, exactly


class Chosen(Tensor):
    """An element, or its index, chosen along an axis, which stays with size 1.

    Args:
        choice: which.
        x: the elements.
        axis: the axis.
        seed: draws the order of equal elements where none is promised.
    """

    def __init__(self, choice: Choice, x: Tensor, axis: int, seed: int) -> None:
        self.choice, self.x, self.axis, self.seed = choice, x, axis, seed
        self.shape = (*x.shape[:axis], 1, *x.shape[axis + 1 :])
        self._at: Indices | None = None

    @property
    def args(self) -> tuple[Tensor, ...]:
        """The elements."""
        return (self.x,)

    def _evaluate(self) -> Interval:
        at = self._indices()
        if self.choice.ties is not None:
            return exactly(at.astype(np.float64))
        shape = self.x.shape
        return self.x.whole().each(
            lambda array: np.take_along_axis(np.broadcast_to(array, shape), at, self.axis)
        )

    def exact_at(self, places: Indices) -> Objects:
        """Return exact elements."""
        at = self._indices().reshape(-1)[places]
        if self.choice.ties is not None:
            out = np.empty(places.shape, object)
            out.reshape(-1)[:] = [as_exact(float(i)) for i in at.reshape(-1).tolist()]
            return out
        index = list(np.unravel_index(places, self.shape))
        index[self.axis] = at
        return self.x.exact_at(np.ravel_multi_index(tuple(index), self.x.shape))

    def _indices(self) -> Indices:
        """Return the index of the element that is chosen, for each row."""
        if self._at is None:
            whole, axis = self.x.whole(), self.axis
            lo, hi = (self._rows(end) for end in (whole.lo, whole.hi))
            if whole.unknown is not None:
                unknown = self._rows(whole.unknown)
                lo, hi = np.where(unknown, -np.inf, lo), np.where(unknown, np.inf, hi)
            known = (lo.view(np.uint64) == hi.view(np.uint64)) | (np.isnan(lo) & np.isnan(hi))
            order = self._order(lo)
            at = order[:, self.choice.nth - 1]
            self._again(at, lo, hi, known)
            shape = (*self.shape[:axis], *self.shape[axis + 1 :])
            self._at = np.expand_dims(at.reshape(shape), axis)
        return self._at

    def _rows(self, array: Any) -> Any:
        """Return an array with the axis last and one axis before it."""
        full = np.broadcast_to(array, self.x.shape)
        return np.ascontiguousarray(np.moveaxis(full, self.axis, -1)).reshape(-1, self._length)

    @property
    def _length(self) -> int:
        return self.x.shape[self.axis]

    def _order(self, values: Floats) -> Indices:
        """Return the order of each row from the largest down, NaN first."""
        ties: Any = np.broadcast_to(np.arange(self._length), values.shape)
        if self.choice.ties is None:
            ties = np.signbit(values).astype(np.int64)  # -0 is below 0
        elif self.choice.ties == "last":
            ties = -ties
        elif self.choice.ties == "any":
            ties = np.random.default_rng(self.seed).random(values.shape)
        return np.lexsort((ties, -values, ~np.isnan(values)), axis=-1)

    def _again(self, at: Indices, lo: Floats, hi: Floats, known: Any) -> None:
        """Choose again, exactly, where enclosures do not say whether an element is larger."""
        rows = np.arange(len(at))
        low, high, sure = (a[rows, at][:, None] for a in (lo, hi, known))
        decided = (known & sure) | (hi < low) | (lo > high)
        decided[rows, at] = True
        (again,) = np.nonzero(~decided.all(axis=-1))
        if again.size * self._length > MOST_TERMS:
            what = f"{again.size} choices of {self._length} elements are not decided by enclosures"
            raise ArrayLimitError(what, MOST_TERMS // max(self._length, 1))
        numbers = self._rows(np.arange(self.x.size).reshape(self.x.shape))
        for row in again.tolist():
            values = self.x.exact_at(numbers[row]).tolist()
            at[row] = ranked(values, compare, self.choice.ties or "first")[self.choice.nth - 1]
