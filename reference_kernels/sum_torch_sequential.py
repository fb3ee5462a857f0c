"""Add the numbers of each row from left to right.

for each row m:
    acc: f32 = 0
    for k in order:
        acc = f32(acc + x[m, k])
    s[m] = acc
"""

from __future__ import annotations

import torch

from lastbit.kernels import Case, Kernel
from lastbit.reference_kernels._texts import row_sum


def run(x: torch.Tensor) -> torch.Tensor:
    """Return the sums of the rows of x[M, K], as f32[M, 1]."""
    acc = torch.zeros(x.shape[0], dtype=torch.float32, device=x.device)
    for column in x.float().t().contiguous():
        acc += column
    return acc[:, None]


KERNEL = Kernel(
    name="sum_torch_sequential",
    computes="the sum of each row of x[M, K] from left to right",
    run=run,
    program=row_sum,
    cases=(Case({"M": 100, "K": 500}, "f32"), Case({"M": 30, "K": 65}, "bf16")),
    device="any",
)
