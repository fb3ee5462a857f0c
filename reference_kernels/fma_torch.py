"""Multiply and add with one rounding, or with two.

    for each element:
        contracted:   y = f32(a * b + c)
        else:         y = f32(f32(a * b) + c)

torch has no fused multiply-add. The product of two numbers of f32 is exact in binary64; the sum is
rounded to odd there, from which the rounding to f32 is right (Boldo and Melquiond, IEEE Trans.
Comput. 57(4), 2008).
"""

from __future__ import annotations

import torch

from lastbit.kernels import Kernel
from lastbit.reference_kernels._texts import BOTH, each, multiply_add


def run(
    a: torch.Tensor, b: torch.Tensor, c: torch.Tensor, *, contracted: bool = True
) -> torch.Tensor:
    """Return a * b + c of f32[N]."""
    return fma(a, b, c) if contracted else a * b + c


def fma(a: torch.Tensor, b: torch.Tensor, c: torch.Tensor) -> torch.Tensor:
    """Return f32(a * b + c)."""
    product, other = a.double() * b.double(), c.double()
    total = product + other
    back = total - product
    error = (product - (total - back)) + (other - back)
    inexact = error.abs() > 0
    inward = inexact & ((error < 0) != (total < 0))
    words = (total.view(torch.int64) - inward.long()) | inexact.long()
    return words.view(torch.float64).float()


KERNEL = Kernel(
    name="fma_torch",
    computes="a * b + c with one rounding, or with two",
    run=run,
    program=multiply_add,
    cases=each({"N": 20_000}, "f32", "contracted", BOTH),
    device="any",
)
