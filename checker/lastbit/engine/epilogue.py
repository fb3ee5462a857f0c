"""What a kernel does with its accumulators before it stores them: alpha, bias, output format.

Each step rounds once to the accumulator's format: acc * alpha, then + bias; contracted, both at
once. The rounding to the format of the output comes last. A product of binary32 values has 48
digits and binary64 holds it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lastbit.engine.wide import Array, added, rounded
from lastbit.formats import F32, F64, Format
from lastbit.machines import Machine
from lastbit.round_array import code_type, encode_array
from lastbit.rounding import Rounding


@dataclass(frozen=True)
class Epilogue:
    """What is done with accumulators.

    Attributes:
        machine: the machine, which has its own code for NaN.
        acc: the format of the accumulators.
        out: how the output is rounded.
        alpha: a factor, a value of the accumulator's format.
        bias: one value of at most 24 digits for each column.
        contract: whether the product with alpha and the sum with the bias are rounded once.
    """

    machine: Machine
    acc: Format
    out: Rounding
    alpha: float | None = None
    bias: NDArray[np.float32] | None = None
    contract: bool = False

    def values(self, acc: Array, columns: slice) -> Array:
        """Return the values that are stored."""
        rounding = Rounding.of(self.acc)
        x = acc
        if self.alpha is not None:
            if self.acc == F64:
                x = x * self.alpha
            else:
                exact = x.astype(np.float64) * self.alpha
                x = exact if self.contract and self.bias is not None else rounded(exact, rounding)
        if self.bias is not None:
            x = added(x, self.bias[None, columns], rounding)
        return x if self.out == rounding else rounded(x, self.out)

    def codes(self, acc: Array, columns: slice) -> NDArray[Any]:
        """Return the codes that are stored."""
        x, fmt = self.values(acc, columns), self.out.format
        codes: NDArray[Any]
        if fmt == F32:
            codes = np.asarray(x, np.float32).view(np.uint32).copy()
        else:
            codes = encode_array(np.ascontiguousarray(x), fmt)
        if fmt.has_nan:
            nan = np.isnan(x)
            if nan.any():
                codes[nan] = code_type(fmt).type(self.machine.nan_code(fmt))
        return codes
