"""Add the numbers of each row by halves.

    for each row m:
        run[j]: f32 = sum of the `leaf` numbers of run j, from left to right
        while there are several:
            run[j] = f32(run[2 j] + run[2 j + 1])           for all j
        s[m] = run[0]

A row has a power of 2 of runs.
"""

from __future__ import annotations

import torch

from lastbit.kernels import Case, Kernel
from lastbit.reference_kernels._lanes import halves
from lastbit.reference_kernels._texts import row_sum


def run(x: torch.Tensor, *, leaf: int = 1) -> torch.Tensor:
    """Return the sums of the rows of x[M, K], as f32[M, 1]; K is leaf times a power of 2."""
    m, k = x.shape
    runs, rest = divmod(k, leaf)
    if rest or runs & (runs - 1):
        raise ValueError(f"K is {k}; it is to be {leaf} times a power of 2.")
    grouped = x.float().reshape(m, runs, leaf)
    acc = torch.zeros(m, runs, dtype=torch.float32, device=x.device)
    for column in grouped.unbind(2):
        acc = acc + column
    return halves(acc)


def program(case: Case) -> str:
    """Return what is executed."""
    return row_sum(case, f"pairwise({case['leaf']})")


KERNEL = Kernel(
    name="sum_torch_pairwise",
    computes="the sum of each row of x[M, K] by halves",
    run=run,
    program=program,
    cases=(
        Case({"M": 100, "K": 512}, "f32", {"leaf": 1}),
        Case({"M": 30, "K": 96}, "f32", {"leaf": 3}),
    ),
    device="any",
)
