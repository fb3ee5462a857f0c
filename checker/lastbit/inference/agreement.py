"""How many elements of a result have the kernel's bits, and how far the others are off."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from lastbit.formats import Format
from lastbit.patterns.windows import Bounds
from lastbit.round_array import Codes, decode_array


@dataclass(frozen=True, slots=True)
class Agreement:
    """How many elements of a variant have the kernel's bits.

    Attributes:
        equal: elements with the same bits.
        total: elements compared.
        distance: the mean of log2(1 + distance in codes) over all elements.
        failure: the first element that differs: data set, result, flat index; or None.
        within: elements that count as equal by an allowance alone.
    """

    equal: int
    total: int
    distance: float
    failure: tuple[int, str, int] | None = None
    within: int = 0

    @property
    def share(self) -> float:
        """Return the share of elements that are equal."""
        return self.equal / self.total if self.total else 0.0

    @property
    def differing(self) -> int:
        """Return how many elements differ."""
        return self.total - self.equal

    @property
    def whole(self) -> bool:
        """Return whether all elements are equal."""
        return self.equal == self.total

    def __add__(self, other: Agreement) -> Agreement:
        total = self.total + other.total
        mean = self.distance * self.total + other.distance * other.total
        failure = self.failure or other.failure
        equal, within = self.equal + other.equal, self.within + other.within
        return Agreement(equal, total, mean / max(total, 1), failure, within)


def compared(
    mine: Codes, theirs: Codes, fmt: Format, where: tuple[int, str, Bounds, tuple[int, ...]]
) -> Agreement:
    """Return how the codes of a variant and of the kernel agree.

    Args:
        mine: of the variant.
        theirs: of the kernel.
        fmt: their format.
        where: the data set, the result, the part of it, and its shape.
    """
    number, name, bounds, shape = where
    differs = mine != theirs
    count = int(differs.sum())
    if not count:
        return Agreement(mine.size, mine.size, 0.0)
    place = np.argwhere(differs)[0] + [start for start, _ in bounds] if bounds else []
    flat = int(np.ravel_multi_index(tuple(int(i) for i in place), shape)) if len(shape) else 0
    apart = np.abs(_ordinals(mine, fmt) - _ordinals(theirs, fmt))
    distance = float(np.log2(1.0 + apart).mean())
    return Agreement(mine.size - count, mine.size, distance, (number, name, flat))


def _ordinals(codes: Codes, fmt: Format) -> NDArray[np.float64]:
    """Return numbers that count the values of a format in order."""
    if fmt.kind == "integer":
        return decode_array(codes, fmt)
    words = codes.astype(np.float64) if fmt.kind == "scale" else None
    if words is not None:
        return words
    sign = 1 << (fmt.container - 1)
    magnitude = (codes & codes.dtype.type(sign - 1)).astype(np.float64)
    return np.where(codes & codes.dtype.type(sign), -magnitude, magnitude)
