"""Add the pieces of each row in any order, by `index_add_`: on a GPU these are atomic additions.

    for each row m:
        for each piece i, in any order:
            part: f32 = sum of the numbers of piece i, from left to right
            s[m] = f32(s[m] + part)

On a CPU `index_add_` adds in order, which is one of the possible results.
"""

from __future__ import annotations

import torch

from lastbit.kernels import Case, Kernel
from lastbit.reference_kernels._texts import row_sum_of_pieces


def run(x: torch.Tensor, *, n: int = 4) -> torch.Tensor:
    """Return the sums of the rows of x[M, K], as f32[M, 1]; n divides K."""
    m, k = x.shape
    if k % n:
        raise ValueError(f"K is {k}, which {n} does not divide.")
    parts = torch.zeros(m, n, dtype=torch.float32, device=x.device)
    for column in x.float().reshape(m, n, k // n).unbind(2):
        parts = parts + column
    total = torch.zeros(m, dtype=torch.float32, device=x.device)
    rows = torch.arange(m, device=x.device).repeat_interleave(n)
    return total.index_add_(0, rows, parts.reshape(-1))[:, None]


KERNEL = Kernel(
    name="sum_torch_atomics",
    computes="the sum of each row of x[M, K], its pieces in any order",
    run=run,
    program=row_sum_of_pieces,
    cases=(Case({"M": 200, "K": 256}, "f32", {"n": 4}),),
    device="any",
    deterministic=False,
)
