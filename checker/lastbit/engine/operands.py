"""Operands as numbers: values, and the exponents with which a matrix unit aligns them.

A block holds some rows or columns of an operand, all of K, with K first, so that a slice of K is
contiguous. Binary32 holds every value of a format of at most 24 digits.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any, Final, Protocol, TypeAlias

import numpy as np
from numpy.typing import NDArray

from lastbit.formats import BF16, F16, F32, TF32, Format
from lastbit.round_array import decode_array

Codes: TypeAlias = NDArray[np.unsignedinteger[Any]]
Floats: TypeAlias = NDArray[np.float64]
Single: TypeAlias = NDArray[np.float32]
Exponents: TypeAlias = NDArray[np.int16]
Bytes: TypeAlias = NDArray[np.uint8]

NO_EXPONENT: Final = -8192  # of a zero: below every exponent, also when two of them are added
BIAS: Final = 127  # of the exponent fields of binary32
SPREAD: Final = 31  # binades that the bytes of a block may span
ZERO_BYTE: Final = (1, 2)  # a zero of the left and of the right operand, as a byte
BYTE_BIAS: Final = (63, 64)  # the byte of the largest exponent; they add up to that of 2^0


def singles_of(codes: Codes, fmt: Format) -> Single:
    """Return the values of codes in binary32."""
    match fmt.short:
        case F32.short | TF32.short:
            return codes.view(np.float32)
        case BF16.short:
            words = codes.astype(np.uint32)
            np.left_shift(words, np.uint32(16), out=words)
            return words.view(np.float32)
        case F16.short:
            return codes.view(np.float16).astype(np.float32)
    return np.take(small_values(fmt), codes)


@lru_cache(maxsize=16)
def small_values(fmt: Format) -> Single:
    """Return the value of every code of a format of at most 8 bits."""
    return decode_array(np.arange(1 << fmt.bits, dtype=np.uint8), fmt).astype(np.float32)


@dataclass(frozen=True, slots=True)
class Extent:
    """What the elements of a block have in common.

    Attributes:
        least: the smallest exponent of a nonzero element.
        most: the largest one.
        is_finite: whether all elements are finite.
    """

    least: int
    most: int
    is_finite: bool


def extent_of_fields(least: int, most: int) -> Extent:
    """Return an extent, given the least exponent field of a nonzero element, and the largest."""
    if most == 0:
        return Extent(0, 0, True)
    return Extent(least - BIAS, most - BIAS, most < 2 * BIAS + 1)


class Ranged(Protocol):
    """An operand whose range is known."""

    @property
    def format(self) -> Format:
        """The format of the elements."""

    @property
    def extent(self) -> Extent:
        """The range of the exponents."""

    @property
    def is_narrow(self) -> bool:
        """Whether all elements are finite, with exponents that bytes hold."""


@dataclass
class Block:
    """Some rows of the left operand, or some columns of the right one.

    Attributes:
        codes: with K first.
        format: their format.
        side: 0 for the left operand, 1 for the right one.
    """

    codes: Codes
    format: Format
    side: int

    @cached_property
    def singles(self) -> Single:
        """The values in binary32."""
        return singles_of(self.codes, self.format)

    @cached_property
    def values(self) -> Floats:
        """The values in binary64."""
        return self.singles.astype(np.float64)

    @cached_property
    def flushed(self) -> Floats:
        """The values, with zeros for subnormal ones."""
        subnormal = np.abs(self.values) < float(self.format.min_normal)
        return np.where(subnormal, 0.0, self.values)

    @cached_property
    def fields(self) -> Bytes:
        """The exponents plus 127, a subnormal element with the smallest of its format; zero has 0.

        NaN and infinities have 255.
        """
        words = self.singles.view(np.uint32) << np.uint32(1)
        fields = (words >> np.uint32(24)).astype(np.uint8)
        np.maximum(fields, np.uint8(self.format.emin + BIAS), out=fields)
        fields *= words != 0
        return fields

    @cached_property
    def extent(self) -> Extent:
        """The range of the exponents."""
        most = int(self.fields.max(initial=0))
        least = int((self.fields - np.uint8(1)).min(initial=255)) + 1  # of a zero it is 256
        return extent_of_fields(least, most)

    @cached_property
    def exponents(self) -> Exponents:
        """The exponents; `NO_EXPONENT` for a zero."""
        exponents = self.fields.astype(np.int16)
        exponents -= np.int16(BIAS)
        exponents[self.fields == 0] = NO_EXPONENT
        return exponents

    @property
    def is_narrow(self) -> bool:
        """Whether all elements are finite, with exponents that bytes hold."""
        extent = self.extent
        return extent.is_finite and extent.most - extent.least <= SPREAD

    @cached_property
    def scaled(self) -> Single:
        """The values times 2^-e, e the largest exponent: exact where the block is narrow."""
        factor = 2.0**-self.extent.most
        if self.extent.most <= F32.emax - 1 and self.extent.most >= F32.emin:
            return self.singles * np.float32(factor)
        return (self.values * factor).astype(np.float32)

    @cached_property
    def bytes(self) -> Bytes:
        """The exponents less the largest one, in bytes, where the block is narrow."""
        out = self.fields - np.uint8((self.extent.most + BIAS - BYTE_BIAS[self.side]) % 256)
        out[self.fields == 0] = ZERO_BYTE[self.side]
        return out

    @cached_property
    def significand_sums(self) -> Floats:
        """The running sums along K of the magnitudes of the significands, from zero on."""
        powers = np.where(self.fields == 0, 0, self.exponents)
        sums = np.zeros((len(self.codes) + 1, self.codes.shape[1]))
        np.cumsum(np.abs(self.values) * power_of_two(-powers), axis=0, out=sums[1:])
        return sums


def power_of_two(exponents: NDArray[np.integer[Any]]) -> Floats:
    """Return 2^e in binary64 for exponents from -1022 to 1023."""
    return ((exponents.astype(np.int64) + 1023) << 52).view(np.float64)
