"""Add the numbers of each row from left to right.

for each block of 64 rows:
    acc: f32[64] = 0
    for k in order:
        acc = f32(acc + x[rows, k])
    s[rows] = acc
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl

from lastbit.kernels import Case, Kernel
from lastbit.reference_kernels._texts import row_sum
from lastbit.reference_kernels._triton import OPTIONS

ROWS = 64


@triton.jit
def _add(x_ptr, s_ptr, m, k: tl.constexpr, tall: tl.constexpr):
    rows = tl.program_id(0) * tall + tl.arange(0, tall)
    acc = tl.zeros([tall], tl.float32)
    for i in range(k):
        acc = acc + tl.load(x_ptr + rows * k + i, mask=rows < m, other=0.0).to(tl.float32)
    tl.store(s_ptr + rows, acc, mask=rows < m)


def run(x: torch.Tensor) -> torch.Tensor:
    """Return the sums of the rows of x[M, K], as f32[M, 1]."""
    m, k = x.shape
    s = torch.empty((m, 1), dtype=torch.float32, device=x.device)
    _add[(triton.cdiv(m, ROWS),)](x.contiguous(), s, m, k, tall=ROWS, **OPTIONS)
    return s


KERNEL = Kernel(
    name="sum_triton_sequential",
    computes="the sum of each row of x[M, K] from left to right",
    run=run,
    program=row_sum,
    cases=(Case({"M": 1000, "K": 500}, "f32"), Case({"M": 300, "K": 65}, "bf16")),
    device="cuda",
)
