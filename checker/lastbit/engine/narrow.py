"""Chains of a matrix unit in binary32: the fast way, for operands of like magnitude.

A block of outputs goes through all steps of a chain together. Both operands are scaled by powers of
two so that their largest exponents are 0, and what follows is exact:

1. An exponent is a byte: those of a block span at most 31 binades, and of two operands 62. A zero
   has a byte so low that it never exceeds the smallest sum of two others. The largest sum of a step
   is the exponent E of its products; the reduction begins at 2^-62, which can exceed the true E
   only where all products are zero, and then the accumulator, which is a multiple of 2^(-62 - F),
   loses nothing.
2. Products have at most 24 digits and exponents far from the ends of binary32: exact.
3. Times 2^(F - E), a power of two, a term is exact, and its conversion to an integer cuts it toward
   zero, to a multiple of 2^(E - F): numpy truncates, as C does.
4. A sum of integers is exact: the terms of a step are added in parts whose sums stay below 2^31.
   With significands below 2, terms are below 2^F |a b|, and the accumulator is below 2^(F + 1): one
   part is enough where the significands of a row in a step add up to 2^(30 - F) - 1 at most. For
   F = 25 and 16 products that is 31; their mean is about 1.4, and their sum is always below 32.
5. The sum in binary64 is exact; clearing its low bits cuts it toward zero to the digits of the
   result, and the conversion to binary32 and the power of two are exact.

`fits` checks that no result of any step, at the true scale, is subnormal or overflows, and that
the floor exponent of zeros is below all others, so that it never counts.
"""

from __future__ import annotations

import math
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from lastbit.engine.operands import BYTE_BIAS, SPREAD, Block, Ranged, Single
from lastbit.engine.tape import Chain
from lastbit.formats import F32

LEAST_BYTE: Final = sum(BYTE_BIAS) - 2 * SPREAD  # the byte of the smallest exponent of a product
MOST_DIGITS: Final = 24

Integers = NDArray[np.int32]


def fits(chain: Chain, left: Ranged, right: Ranged) -> bool:
    """Return whether a chain over two blocks can be computed in binary32, exactly."""
    unit, f = chain.unit, chain.unit.fraction_bits
    if unit.method != "aligned" or chain.format != "f32":
        return False
    if left.format.precision + right.format.precision > MOST_DIGITS:
        return False
    if not (left.is_narrow and right.is_narrow):
        return False
    a, b = left.extent, right.extent
    terms = sum(_count(piece) for piece in chain.pieces)
    smallest = a.least + b.least - f  # every accumulator is a multiple of 2^smallest
    largest = a.most + b.most + 2 + math.ceil(math.log2(terms + 1))
    return smallest >= F32.emin and largest <= F32.emax and f <= 25


def _count(piece: slice | NDArray[np.intp]) -> int:
    if isinstance(piece, slice):
        return len(range(piece.start, piece.stop, piece.step))
    return len(piece)


def parts_of(chain: Chain, left: Block) -> list[int]:
    """Return, for each step of a chain, in how many parts its integers are added."""
    unit = chain.unit
    limit = 2 ** (30 - unit.fraction_bits) - 1  # of the sum of a row's significands, all below 2
    if 2 * unit.width <= limit:
        return [1] * len(chain.pieces)
    most = -(-(unit.width + 1) // (limit // 2))
    spans = chain.spans()
    if spans is None:
        return [most] * len(chain.pieces)
    sums = left.significand_sums
    rows = (sums[spans[1]] - sums[spans[0]]).max(axis=1, initial=0.0)
    return [1 if row <= limit else most for row in rows.tolist()]


class Scratch:
    """The buffers of a tile; each thread has its own."""

    def __init__(self) -> None:
        self.shape: tuple[int, int, int] = (0, 0, 0)

    def fit(self, width: int, rows: int, columns: int) -> None:
        """Make the buffers fit a unit and a tile."""
        if self.shape == (width, rows, columns):
            return
        self.shape = (width, rows, columns)
        tile = (rows, columns)
        self.terms = np.empty((width + 1, *tile), np.float32)
        self.integers = np.empty((width + 1, *tile), np.int32)
        self.bytes = np.empty((width, *tile), np.uint8)
        self.largest_byte = np.empty(tile, np.uint8)
        self.largest = np.empty(tile, np.int32)
        self.own = np.empty(tile, np.int32)
        self.scale = np.empty(tile, np.int32)
        self.sum = np.empty(tile, np.int32)
        self.whole = np.empty(tile, np.float64)
        self.part = np.empty(tile, np.float64)


ONE: Final = np.uint32(1)
EXPONENT_BITS: Final = np.uint32(24)
FRACTION_BITS: Final = np.int32(23)
BOTH: Final = np.int32(254 << 23)  # the bits of 2^e and of 2^-e add up to this


def run(
    chain: Chain,
    parts: list[int],
    left: tuple[Single, NDArray[np.uint8]],
    right: tuple[Single, NDArray[np.uint8]],
    scratch: Scratch,
) -> Single:
    """Return the accumulators of a tile after a chain, at the scale of the blocks.

    Args:
        chain: the steps.
        parts: for each step, in how many parts its integers are added.
        left: values and bytes of the rows, `[K, rows]`.
        right: values and bytes of the columns, `[K, columns]`.
        scratch: the buffers.
    """
    (a, a_bytes), (b, b_bytes) = left, right
    unit = chain.unit
    width, f = unit.width, unit.fraction_bits
    scratch.fit(width, a.shape[1], b.shape[1])
    acc: Single = scratch.terms[width]
    acc[...] = 0.0
    acc_words = acc.view(np.uint32)
    own, largest, scale = scratch.own, scratch.largest, scratch.scale
    own_words, scale_value = own.view(np.uint32), scale.view(np.float32)
    whole, words = scratch.whole, scratch.whole.view(np.int64)
    mask = np.int64(-(1 << (52 - unit.result_bits)))
    to_scale = np.int32(2 * 127 + f)
    for piece, count in zip(chain.pieces, parts, strict=True):
        a_step, b_step = a[piece], b[piece]
        first = width - len(a_step)
        exponents = scratch.bytes[first:]
        np.add(a_bytes[piece][:, :, None], b_bytes[piece][:, None, :], out=exponents)
        np.maximum.reduce(exponents, axis=0, out=scratch.largest_byte, initial=LEAST_BYTE)
        np.left_shift(acc_words, ONE, out=own_words)
        np.right_shift(own_words, EXPONENT_BITS, out=own_words)
        np.copyto(largest, scratch.largest_byte)
        np.maximum(largest, own, out=largest)
        np.subtract(to_scale, largest, out=scale)
        np.left_shift(scale, FRACTION_BITS, out=scale)
        terms, integers = scratch.terms[first:], scratch.integers[first:]
        np.multiply(a_step[:, :, None], b_step[:, None, :], out=terms[:-1])
        np.multiply(terms, scale_value, out=terms)
        np.copyto(integers, terms, casting="unsafe")
        _add(integers, count, scratch)
        np.bitwise_and(words, mask, out=words)
        np.copyto(acc, whole, casting="same_kind")
        np.subtract(BOTH, scale, out=scale)
        np.multiply(acc, scale_value, out=acc)
    return acc


def _add(integers: Integers, parts: int, scratch: Scratch) -> None:
    """Add integers along the first axis, in parts, to binary64."""
    if parts == 1:
        np.add.reduce(integers, axis=0, dtype=np.int32, out=scratch.sum)
        np.copyto(scratch.whole, scratch.sum)
        return
    size = -(-len(integers) // parts)
    scratch.whole[...] = 0.0
    for start in range(0, len(integers), size):
        np.add.reduce(integers[start : start + size], axis=0, dtype=np.int32, out=scratch.sum)
        np.copyto(scratch.part, scratch.sum)
        np.add(scratch.whole, scratch.part, out=scratch.whole)


def unscaled(acc: Single, left: Block, right: Block) -> NDArray[Any]:
    """Return accumulators at their true scale."""
    return acc * np.float32(2.0 ** (left.extent.most + right.extent.most))
