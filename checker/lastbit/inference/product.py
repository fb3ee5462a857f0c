"""A product whose bits were observed, and what a schedule gives in its place."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Final

import numpy as np
from numpy.typing import NDArray

from lastbit.engine.operands import Block, Extent, singles_of
from lastbit.engine.tiles import hold_products
from lastbit.formats import F32, F64, Format, format_of
from lastbit.inference.arrays import canonical_codes
from lastbit.inference.schedules import Candidate
from lastbit.levels import Schedule
from lastbit.predicting import MatmulSpec, predict_codes
from lastbit.round_array import Codes

Places = NDArray[np.intp]

FEW: Final = 1 << 22  # products that are not worth a second thread
CHUNK: Final = 1 << 22  # elements whose range is found at once


@dataclass(frozen=True)
class Range:
    """The range of an operand, found in bounded memory.

    Attributes:
        format: of the elements.
        extent: the range of their exponents.
        is_narrow: never said here.
    """

    format: Format
    extent: Extent
    is_narrow: bool = False

    @classmethod
    def of(cls, codes: Codes, fmt: Format) -> Range:
        """Return the range of a matrix that is not empty."""
        rows = max(1, CHUNK // codes.shape[1])
        parts = [Block(codes[i : i + rows], fmt, 0).extent for i in range(0, codes.shape[0], rows)]
        least, most = min(part.least for part in parts), max(part.most for part in parts)
        return cls(fmt, Extent(least, most, all(part.is_finite for part in parts)))


@dataclass(frozen=True)
class Product:
    """A product whose bits were observed.

    Attributes:
        spec: what does not depend on the schedule.
        a: codes of the left operand.
        b: codes of the right one.
        seen: codes of the product.
        bias: codes of a bias, or None.
        device: a device of torch, or None.
    """

    spec: MatmulSpec
    a: Codes
    b: Codes
    seen: Codes
    bias: Codes | None
    device: str | None

    @property
    def format(self) -> Format:
        """Return the format of the product."""
        return self.spec.output.format

    @property
    def work(self) -> int:
        """Return how many terms are multiplied."""
        return int(self.seen.size * self.a.shape[1])

    @property
    def holds_products(self) -> bool:
        """Whether binary32 holds the product of every two elements."""
        a, b = self.spec.formats
        return hold_products(Range.of(self.a, a), Range.of(self.b, b))

    @property
    def may_contract(self) -> bool:
        """Whether a fused multiply-add of alpha and bias may round otherwise."""
        alpha = self.spec.alpha
        if alpha is None or self.bias is None or format_of(self.spec.acc) == F64:
            return False
        return alpha != 0 and abs(math.frexp(alpha)[0]) != 0.5

    def bias_of(self, columns: Places | None) -> Codes | None:
        """Return the bias of some columns, or of all."""
        return self.bias if self.bias is None or columns is None else self.bias[columns]


@dataclass
class Way:
    """Schedules that are one tree, and how many outputs it gives.

    Attributes:
        tree: what is equal for equal trees.
        candidates: the schedules, the plainest first.
        contract: whether alpha and bias are applied with one rounding.
        equal: outputs with the same bits.
        total: outputs compared.
    """

    tree: int | str
    candidates: list[Candidate]
    contract: bool = False
    equal: int = 0
    total: int = 0

    @property
    def schedule(self) -> Schedule:
        """Return the plainest schedule."""
        return self.candidates[0].schedule

    @property
    def whole(self) -> bool:
        """Return whether all outputs agree."""
        return self.equal == self.total

    @property
    def rank(self) -> tuple[float, int]:
        """Return a key that sorts the nearest first."""
        return -self.equal / max(self.total, 1), self.candidates[0].tier


def outputs(product: Product, way: Way, a: Codes, b: Codes, columns: Places | None) -> Codes:
    """Return the outputs of a way on operands, with the bias of some columns."""
    machine = way.candidates[0].chain.machine
    spec = replace(product.spec, machine=machine, schedule=way.schedule, contract=way.contract)
    few = a.size * b.shape[1] < FEW
    a, b = np.ascontiguousarray(a), np.ascontiguousarray(b)
    bias = product.bias_of(columns)
    codes = predict_codes(spec, a, b, bias, 1 if few else None, product.device)
    return canonical_codes(codes, product.format)


def finished(product: Product, acc: NDArray[np.floating], contract: bool, columns: Places) -> Codes:
    """Return the codes of outputs `[ways, rows, columns]`, given their accumulators."""
    bias = product.bias_of(columns)
    spec = replace(product.spec, contract=contract)
    finish = spec.epilogue(None if bias is None else singles_of(bias, F32))
    return canonical_codes(finish.codes(acc, slice(0, columns.size)), product.format)


def spread(size: int, count: int) -> Places:
    """Return so many places, spread evenly, or all."""
    if count >= size:
        return np.arange(size)
    return np.unique(np.linspace(0, size - 1, count).round().astype(np.intp))
