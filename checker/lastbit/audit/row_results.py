"""The results for one row of the batch at two batch sizes, and where they lie in the whole."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lastbit.audit.case import Case
from lastbit.audit.taking import Rows
from lastbit.audit.tensor_values import codes_of_tensor, format_of_tensor, values_of_tensor
from lastbit.formats import Format

Places = NDArray[np.intp]
Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Pair:
    """One result at both sizes.

    Attributes:
        number: among the results of the operator.
        format: of its elements.
        before: its elements that belong to the row, at the first size.
        after: the same at the second size.
        differing: places among these whose bits differ.
    """

    number: int
    format: Format
    before: Floats
    after: Floats
    differing: Places

    @property
    def share(self) -> float:
        """Return the share of elements whose bits differ."""
        return len(self.differing) / max(1, self.before.size)


def most_differing(case: Case, sizes: tuple[int, int], row: int) -> Pair | None:
    """Return the result of which most elements differ; None where none holds numbers for each row.

    Args:
        case: the operator.
        sizes: the batch sizes, before and after.
        row: of the batch, which both sizes have.
    """
    first, second = (case.rows_of(case.run(size), [row]) for size in sizes)
    return pair_of(case, first, second)


def pair_of(
    case: Case, first: Sequence[Any], second: Sequence[Any], *, whole: bool = False
) -> Pair | None:
    """Return the pair of results of which most elements differ; None where none holds numbers.

    Args:
        case: the operator.
        first: the results of the one run, for a row as `Case.rows_of` gives them.
        second: those of the other run.
        whole: whether they are whole results, as `Case.run` gives them.
    """
    numbers = range(len(first)) if whole else _numbers(case)
    best: Pair | None = None
    for number, x, y in zip(numbers, first, second, strict=True):
        fmt = format_of_tensor(x)
        if fmt is None or x.dtype != y.dtype or x.shape != y.shape:
            continue
        codes = [codes_of_tensor(one).reshape(-1) for one in (x, y)]
        before, after = (values_of_tensor(one).reshape(-1) for one in (x, y))
        pair = Pair(number, fmt, before, after, np.flatnonzero(codes[0] != codes[1]))
        if best is None or pair.share > best.share:
            best = pair
    return best


def flat_places(case: Case, rows: Rows, row: int, number: int) -> Places:
    """Return where the elements of a row lie in a whole result, counted along its axes.

    Args:
        case: the operator.
        rows: of the batch that are computed, as in `Case.arguments`.
        row: the place of the row among these.
        number: of the result.
    """
    import torch

    results = case.run(rows)
    numbered = tuple(torch.arange(one.numel()).reshape(one.shape) for one in results)
    part = case.rows_of(numbered, [row])[_numbers(case).index(number)]
    return np.asarray(part.reshape(-1).numpy(), np.intp)


def _numbers(case: Case) -> list[int]:
    """Return the results that have rows of the batch, in the order of `Case.rows_of`."""
    return [i for i, axis in enumerate(case.layout.results) if axis is not None]
