"""Multiply and add with one rounding, or with two.

for each element:
    contracted:   y = f32(a * b + c)
    else:         y = f32(f32(a * b) + c)
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl

from lastbit.kernels import Kernel
from lastbit.reference_kernels._texts import BOTH, each, multiply_add
from lastbit.reference_kernels._triton import OPTIONS


@triton.jit
def _multiply_add(a_ptr, b_ptr, c_ptr, y_ptr, n, contracted: tl.constexpr, block: tl.constexpr):
    at = tl.program_id(0) * block + tl.arange(0, block)
    a = tl.load(a_ptr + at, mask=at < n, other=0.0)
    b = tl.load(b_ptr + at, mask=at < n, other=0.0)
    c = tl.load(c_ptr + at, mask=at < n, other=0.0)
    y = tl.math.fma(a, b, c) if contracted else a * b + c
    tl.store(y_ptr + at, y, mask=at < n)


def run(
    a: torch.Tensor, b: torch.Tensor, c: torch.Tensor, *, contracted: bool = True
) -> torch.Tensor:
    """Return a * b + c of f32[N]."""
    y = torch.empty_like(a)
    grid = (triton.cdiv(a.numel(), 1024),)
    _multiply_add[grid](a, b, c, y, a.numel(), contracted=contracted, block=1024, **OPTIONS)
    return y


KERNEL = Kernel(
    name="fma_triton",
    computes="a * b + c with one rounding, or with two",
    run=run,
    program=multiply_add,
    cases=each({"N": 200_000}, "f32", "contracted", BOTH),
    device="cuda",
)
