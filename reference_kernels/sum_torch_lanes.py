"""Add the numbers of each row in lanes.

for each row m:
    acc: f32[lanes] = 0
    for k in order, lanes at a time:
        acc[i] = f32(acc[i] + x[m, k + i])          for all lanes i
    s[m] = out(sum of acc, from left to right)
"""

from __future__ import annotations

import torch

from lastbit.kernels import Case, Kernel
from lastbit.reference_kernels._arguments import standing_for_reductions
from lastbit.reference_kernels._chain import OUTPUTS
from lastbit.reference_kernels._texts import row_sum_in_lanes

LANES = 32


def run(x: torch.Tensor, *, lanes: int = LANES, out: str = "f32") -> torch.Tensor:
    """Return the sums of the rows of x[M, K], as [M, 1]."""
    m, k = x.shape
    acc = torch.zeros(m, min(lanes, k), dtype=torch.float32, device=x.device)
    for start in range(0, k, lanes):
        piece = x[:, start : start + lanes].float()
        acc[:, : piece.shape[1]] += piece
    total = torch.zeros(m, dtype=torch.float32, device=x.device)
    for column in acc.unbind(1):
        total = total + column
    return total[:, None].to(OUTPUTS[out])


def totals(x: torch.Tensor) -> torch.Tensor:
    """Return the sums of rows in their type: in binary32, rounded once at its end."""
    return run(x).to(x.dtype)


def means(x: torch.Tensor) -> torch.Tensor:
    """Return the means of rows in their type: the binary32 sum by the count, rounded once more."""
    total = run(x)
    # Divided by a number, torch on CUDA multiplies with its reciprocal.
    return (total / torch.full_like(total, x.shape[1])).to(x.dtype)


KERNEL = Kernel(
    name="sum_torch_lanes",
    computes="the sum of each row of x[M, K] in lanes",
    run=run,
    program=row_sum_in_lanes,
    cases=(
        Case({"M": 40, "K": 1000}, "f32", {"lanes": 32, "out": "f32"}),
        Case({"M": 9, "K": 257}, "bf16", {"lanes": 8, "out": "bf16"}),
        Case({"M": 5, "K": 3}, "f32", {"lanes": 8, "out": "f32"}),
    ),
    device="any",
    replaces=standing_for_reductions(totals, means),
)
