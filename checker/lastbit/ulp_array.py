"""Distances in ulp between whole arrays, equal to the exact core's element by element."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from lastbit.formats import Format
from lastbit.round_array import encode_array
from lastbit.ulps import KINDS, DistanceKind, ulp

Ordinals: TypeAlias = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class UlpDistances:
    """How far apart two arrays of one format are, element by element.

    Attributes:
        ulps: the steps from one to the other; 0 where a step count means nothing (`inf`, `nan`).
        kinds: for each element an index into `lastbit.ulps.KINDS`.
    """

    ulps: npt.NDArray[np.uint64]
    kinds: npt.NDArray[np.uint8]

    def of_kind(self, kind: DistanceKind) -> npt.NDArray[np.bool_]:
        """Return the mask of the elements of a kind."""
        return np.equal(self.kinds, KINDS.index(kind))


@dataclass(frozen=True, slots=True)
class Gap:
    """The greatest distance of two arrays.

    Attributes:
        differing: elements with another value, or a zero of another sign.
        ulps: the greatest distance of two finite numbers, in ulp of the format.
        scaled: the same in the format's ulp at the largest finite number of the second array.
    """

    differing: int
    ulps: int
    scaled: float


def gap(a: npt.NDArray[np.floating[Any]], b: npt.NDArray[np.floating[Any]], fmt: Format) -> Gap:
    """Return the greatest distance of two arrays of one shape.

    Raises:
        NotRepresentableError: the format does not hold an element.
    """
    found = ulp_distance_array(a, b, fmt)
    finite = np.isfinite(a) & np.isfinite(b)
    largest = float(np.abs(b[finite]).max(initial=0.0))
    widest = float(np.abs(a[finite] - b[finite]).max(initial=0.0))
    differing = int((found.kinds != KINDS.index("equal")).sum())
    return Gap(differing, int(found.ulps.max(initial=0)), widest / float(ulp(largest, fmt)))


def ordinal_array(values: npt.NDArray[np.floating[Any]], fmt: Format) -> Ordinals:
    """Return the place of each element among the values of its format, counted from zero.

    Raises:
        NotRepresentableError: the format does not hold an element.
    """
    codes = encode_array(values, fmt)
    codes = codes >> codes.dtype.type(fmt.padding)
    if not fmt.signed:
        return codes.astype(np.int64)
    half = 1 << (fmt.bits - 1)
    magnitudes = (codes & codes.dtype.type(half - 1)).astype(np.int64)
    below = magnitudes - half if fmt.kind == "integer" else -magnitudes
    return np.where(codes < codes.dtype.type(half), magnitudes, below)


def ulp_distance_array(
    a: npt.NDArray[np.floating[Any]], b: npt.NDArray[np.floating[Any]], fmt: Format
) -> UlpDistances:
    """Return how far apart the elements of two arrays are, in ulp of the format.

    Raises:
        NotRepresentableError: the format does not hold an element.
    """
    places_a, places_b = ordinal_array(a, fmt), ordinal_array(b, fmt)
    with np.errstate(over="ignore"):  # two far ends of binary64 are 2^64 apart, nearly
        difference = places_a.astype(np.uint64) - places_b.astype(np.uint64)
        ulps = np.where(places_a >= places_b, difference, np.negative(difference))
    nan_a, nan_b = np.isnan(a), np.isnan(b)
    kinds = np.where(ulps > 0, np.uint8(KINDS.index("distance")), np.uint8(KINDS.index("equal")))
    kinds[(ulps == 0) & (np.signbit(a) != np.signbit(b))] = KINDS.index("signed-zero")
    kinds[(ulps > 0) & (np.isinf(a) | np.isinf(b))] = KINDS.index("inf")
    kinds[nan_a & nan_b] = KINDS.index("equal")
    kinds[nan_a != nan_b] = KINDS.index("nan")
    ulps[kinds >= KINDS.index("inf")] = 0
    return UlpDistances(ulps, kinds)
