"""Add the numbers of each row by halves.

    for each row m:
        run[j]: f32 = x[m, j]
        while there are several:
            run[j] = f32(run[2 j] + run[2 j + 1])           for all j
        s[m] = run[0]

A row has a power of 2 of numbers.
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl

from lastbit.kernels import Case, Kernel
from lastbit.reference_kernels._texts import row_sum
from lastbit.reference_kernels._triton import OPTIONS, halves, log2


@triton.jit
def _add(x_ptr, s_ptr, k: tl.constexpr, log_k: tl.constexpr):
    row = tl.program_id(0) + tl.arange(0, 1)
    x = tl.load(x_ptr + row[:, None] * k + tl.arange(0, k)[None, :]).to(tl.float32)
    tl.store(s_ptr + row, halves(x, 1, k, log_k))


def run(x: torch.Tensor) -> torch.Tensor:
    """Return the sums of the rows of x[M, K], as f32[M, 1]; K is a power of 2."""
    m, k = x.shape
    if k & (k - 1):
        raise ValueError(f"K is {k}; it is to be a power of 2.")
    s = torch.empty((m, 1), dtype=torch.float32, device=x.device)
    _add[(m,)](x.contiguous(), s, k=k, log_k=log2(k), **OPTIONS)
    return s


def program(case: Case) -> str:
    """Return what is executed."""
    return row_sum(case, "pairwise(1)")


KERNEL = Kernel(
    name="sum_triton_pairwise",
    computes="the sum of each row of x[M, K] by halves",
    run=run,
    program=program,
    cases=(Case({"M": 1000, "K": 512}, "f32"), Case({"M": 300, "K": 128}, "bf16")),
    device="cuda",
)
