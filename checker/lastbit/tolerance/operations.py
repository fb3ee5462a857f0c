"""The operations whose results are compared: their inputs, their results, right and wrong.

Results are computed in binary64 and rounded once to the format, which is what every legal result
lies around. A reduced axis is the last one.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from lastbit.errors import InputError, Problem
from lastbit.formats import format_of
from lastbit.importers.torch_calls import load_torch
from lastbit.inference.arrays import native
from lastbit.round_array import encode_array, round_array
from lastbit.rounding import Rounding
from lastbit.tolerance.records import Subject

EPSILON: Final = 1e-6
LEAST: Final = 2.0**-6  # of a drawn input in magnitude: products and squares stay normal in f16
MOST: Final = 1 << 24  # elements of an input or a result
SIZES: Final = {"matmul": "M,N,K", "elementwise": "M,N", "sum": "M,N", "mean": "M,N", "norm": "M,N"}

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Operation:
    """An operation on inputs of a format.

    Attributes:
        subject: what it is.
        x: its first input; rows of what is reduced.
        w: its second, for those that have one.
    """

    subject: Subject
    x: Floats
    w: Floats | None

    @classmethod
    def of(cls, subject: Subject) -> Operation:
        """Return the operation on inputs drawn from normal(0, 1), none nearer to zero than `LEAST`.

        Raises:
            InputError: the sizes are not those of the operation.
        """
        x_shape, w_shape = _shapes(subject)
        rng = np.random.default_rng(subject.seed)
        return cls(
            subject,
            _drawn(rng, x_shape, subject.format),
            None if w_shape is None else _drawn(rng, w_shape, subject.format),
        )

    @property
    def terms(self) -> int:
        """How many terms each sum has; 1 where nothing is added."""
        return 1 if self.subject.op == "elementwise" else self.x.shape[-1]

    def expected(self) -> Floats:
        """Return the right result, a value of the format for each element."""
        return self.rounded(self.result())

    def rounded(self, values: Floats) -> Floats:
        """Return values rounded to the format."""
        return round_array(values, Rounding.of(format_of(self.subject.format)))

    def result(
        self, columns: int | None = None, divisor: int | None = None, epsilon: float = EPSILON
    ) -> Floats:
        """Return the result before it is rounded.

        Args:
            columns: how many terms of each sum count; all if null.
            divisor: what a mean divides by; the number of terms if null.
            epsilon: what a norm adds to the mean of squares.
        """
        x, w = self.x, self.w
        taken = x[..., : self.terms if columns is None else columns]
        count = divisor or self.terms
        match self.subject.op:
            case "elementwise":
                assert w is not None
                return np.asarray(x / (1 + np.exp(-x)) * w)
            case "sum":
                return np.asarray(taken.sum(-1))
            case "mean":
                return np.asarray(taken.sum(-1) / count)
            case "norm":
                square = (taken * taken).sum(-1, keepdims=True) / count
                return np.asarray(x / np.sqrt(square + epsilon) * w)
        assert w is not None
        return np.asarray(taken @ w[: taken.shape[-1]])

    def sum_abs(self) -> Floats:
        """Return for each element of the result the sum of the absolute values of its terms.

        Where no terms can cancel that is the magnitude of the result.
        """
        match self.subject.op:
            case "sum":
                return np.asarray(np.abs(self.x).sum(-1))
            case "mean":
                return np.asarray(np.abs(self.x).mean(-1))
            case "matmul":
                assert self.w is not None
                return np.asarray(np.abs(self.x) @ np.abs(self.w))
        return np.abs(self.result())

    def first_rows(self, rows: int) -> Operation:
        """Return the operation on the first rows alone."""
        x = self.x.reshape(-1, self.x.shape[-1])[:rows]
        w = self.w
        if self.subject.op == "elementwise" and w is not None:
            w = w.reshape(-1, w.shape[-1])[:rows]
        return Operation(self.subject, x, w)


def _drawn(rng: np.random.Generator, shape: tuple[int, ...], fmt: str) -> Floats:
    values = rng.standard_normal(shape)
    values = np.copysign(np.maximum(np.abs(values), LEAST), values)
    return round_array(values, Rounding.of(format_of(fmt)))


def _shapes(subject: Subject) -> tuple[tuple[int, ...], tuple[int, ...] | None]:
    shape, op = subject.shape, subject.op
    fits = len(shape) == 3 if op == "matmul" else len(shape) >= 1
    if not fits or not all(size > 0 for size in shape):
        given = ",".join(map(str, shape))
        message = f"the shape {given!r} is none of {op}"
        raise InputError([Problem(message, f"Write --shape {SIZES[op]}, each at least 1.")])
    if op == "matmul":
        m, n, k = shape
        x: tuple[int, ...] = (m, k)
        w: tuple[int, ...] | None = (k, n)
        largest = max(m * k, k * n, m * n)
    else:
        x, largest = shape, math.prod(shape)
        w = {"elementwise": shape, "norm": shape[-1:]}.get(op)
    if largest > MOST:
        message = f"{op} of {list(shape)} takes arrays of {largest:,} elements"
        raise InputError([Problem(message, f"At most {MOST:,} are tried; give fewer rows.")])
    return x, w


def as_array(operation: Operation, values: Floats, fmt: str | None = None) -> Any:
    """Return values as an array of the subject's library.

    Args:
        operation: whose library.
        values: each a value of the format.
        fmt: the format; that of the subject if null.

    Raises:
        InputError: torch is wanted, and not installed.
    """
    library = operation.subject.library
    if library == "torch":
        load_torch()
    found = format_of(fmt or operation.subject.format)
    return native(encode_array(values, found), found, library).reshape(values.shape)
