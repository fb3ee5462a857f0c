"""Distances in units of a format's ulp at a scale that the user names.

Where terms cancel, the ulp of the result says little about how well they were added. The ulp at the
largest magnitude around it does: of the tensor, of the row, or of the column (a channel).
Source for the ulp: Muller et al., Handbook of Floating-Point Arithmetic, 2nd ed., section 2.3.2.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from math import prod
from typing import Final, Literal

import numpy as np
from numpy.typing import NDArray

from lastbit.comparing.ranks import rank, value_of_rank
from lastbit.comparing.records import AtScale
from lastbit.comparing.tally import Tally
from lastbit.comparing.tensors import Tensor
from lastbit.errors import InputError, Problem
from lastbit.formats import Format
from lastbit.round_array import decode_array

READ: Final = 1 << 18  # elements at a time; each takes some temporaries of 8 bytes

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Scale:
    """What distances are measured at.

    Attributes:
        along: the largest magnitude of both tensors, of each row, or of each column.
    """

    along: Literal["tensor", "row", "column"]


def at_scale(a: Tensor, b: Tensor, tally: Tally, scale: Scale) -> AtScale:
    """Return the distances of two tensors at a scale.

    Args:
        a: the first.
        b: the second.
        tally: of both.
        scale: what to measure at.

    Raises:
        InputError: the elements are no numbers of a floating-point format.
    """
    fmt = a.element.format
    if fmt is None or a.element.sort != "sign":
        message = f"{a.element.name} has no ulp at a scale; only floating-point formats have one"
        raise InputError([Problem(message, "Leave out --scale.")])
    columns = a.shape[-1] if a.shape else 1
    ulps = _ulps(_largest(a, b, columns, scale), fmt)

    def distances() -> Iterator[NDArray[np.uint64]]:
        at = 0
        for left, right in zip(_numbers(a), _numbers(b), strict=True):
            with np.errstate(invalid="ignore"):
                apart = np.abs(left - right) / ulps[_which(at, len(left), columns, scale)]
            at += len(left)
            finite = np.isfinite(left) & np.isfinite(right)
            yield np.ascontiguousarray(apart[finite]).view(np.uint64)  # ordered like the numbers

    count = sum(len(block) for block in distances())
    most = max((int(block.max()) for block in distances() if len(block)), default=0)
    shares = (Fraction(1, 2), Fraction(99, 100), Fraction(999, 1000))
    found = [value_of_rank(rank(share, count), distances) for share in shares]
    numbers = np.array([most, *found], np.uint64).view(np.float64)
    return AtScale(scale.along, *(float(number) for number in numbers))


def _numbers(tensor: Tensor) -> Iterator[Floats]:
    assert tensor.element.format is not None
    for block in tensor.blocks(READ):
        yield decode_array(block, tensor.element.format)


def _which(start: int, count: int, columns: int, scale: Scale) -> NDArray[np.intp]:
    if scale.along == "tensor":
        return np.zeros(count, np.intp)
    flat = np.arange(start, start + count)
    return flat // columns if scale.along == "row" else flat % columns


def _largest(a: Tensor, b: Tensor, columns: int, scale: Scale) -> Floats:
    sizes = {"tensor": 1, "row": prod(a.shape[:-1]), "column": columns}
    found = np.zeros(sizes[scale.along])
    for tensor in (a, b):
        at = 0
        for block in _numbers(tensor):
            magnitudes = np.where(np.isfinite(block), np.abs(block), 0)
            np.maximum.at(found, _which(at, len(block), columns, scale), magnitudes)
            at += len(block)
    return found


def _ulps(values: Floats, fmt: Format) -> Floats:
    """Return the format's ulp at each value: 2^(max(exponent, least) - digits + 1)."""
    exponents = np.frexp(values)[1] - 1
    exponents = np.where(values == 0, fmt.emin, np.maximum(exponents, fmt.emin))
    return np.asarray(np.ldexp(1.0, exponents - fmt.precision + 1))
