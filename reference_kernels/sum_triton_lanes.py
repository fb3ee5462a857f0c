"""Add the numbers of each row in lanes.

for each row m:
    acc: f32[lanes] = 0
    for k in order, lanes at a time:
        acc[i] = f32(acc[i] + x[m, k + i])          for all lanes i
    s[m] = out(sum of acc, from left to right)
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl

from lastbit.kernels import Case, Kernel
from lastbit.reference_kernels._arguments import standing_for_reductions
from lastbit.reference_kernels._chain import OUTPUTS
from lastbit.reference_kernels._texts import row_sum_in_lanes
from lastbit.reference_kernels._triton import OPTIONS

ROWS, LANES = 4, 32


@triton.jit
def _add(x_ptr, s_ptr, m, k: tl.constexpr, divisor, lanes: tl.constexpr, tall: tl.constexpr):
    rows = tl.program_id(0) * tall + tl.arange(0, tall)
    lane = tl.arange(0, lanes)
    acc = tl.zeros([tall, lanes], tl.float32)
    for start in range(0, k, lanes):
        at = start + lane
        x = tl.load(
            x_ptr + rows[:, None].to(tl.int64) * k + at[None, :],
            mask=(rows[:, None] < m) & (at[None, :] < k),
            other=0.0,
        )
        acc = acc + x.to(tl.float32)
    total = tl.zeros([tall], tl.float32)
    for i in range(lanes):
        # All terms but one are zero, so that the tree of `tl.sum` does not matter.
        total = total + tl.sum(tl.where(lane[None, :] == i, acc, 0.0), 1)
    mean = tl.math.div_rn(total, tl.full([tall], 1.0, tl.float32) * divisor)
    tl.store(s_ptr + rows, mean.to(s_ptr.dtype.element_ty), mask=rows < m)


def sums(x: torch.Tensor, lanes: int, out: torch.dtype, divisor: int = 1) -> torch.Tensor:
    """Return the sums of the rows of x[M, K] over a divisor, as [M, 1]."""
    m, k = x.shape
    s = torch.empty((m, 1), dtype=out, device=x.device)
    if m:
        grid = (triton.cdiv(m, ROWS),)
        _add[grid](x.contiguous(), s, m, k, float(divisor), lanes=lanes, tall=ROWS, **OPTIONS)
    return s


def run(x: torch.Tensor, *, lanes: int = LANES, out: str = "f32") -> torch.Tensor:
    """Return the sums of the rows of x[M, K], as [M, 1]."""
    return sums(x, lanes, OUTPUTS[out])


def totals(x: torch.Tensor) -> torch.Tensor:
    """Return the sums of rows in their type: in binary32, rounded once at its end."""
    return sums(x, LANES, x.dtype)


def means(x: torch.Tensor) -> torch.Tensor:
    """Return the means of rows in their type: the binary32 sum by the count, rounded once more."""
    return sums(x, LANES, x.dtype, x.shape[1])


KERNEL = Kernel(
    name="sum_triton_lanes",
    computes="the sum of each row of x[M, K] in lanes",
    run=run,
    program=row_sum_in_lanes,
    cases=(
        Case({"M": 1000, "K": 1000}, "f32", {"lanes": 32, "out": "f32"}),
        Case({"M": 90, "K": 257}, "bf16", {"lanes": 8, "out": "bf16"}),
        Case({"M": 5, "K": 3}, "f32", {"lanes": 8, "out": "f32"}),
    ),
    device="cuda",
    replaces=standing_for_reductions(totals, means),
)
