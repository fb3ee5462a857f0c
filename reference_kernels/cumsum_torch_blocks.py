"""Running sums of each row: inside blocks, and then of the blocks.

for each row m:
    for each block j:
        for i in order:
            inside[j, i] = f32(inside[j, i - 1] + x[m, j, i])
    before: f32 = 0
    for each block j, in order:
        y[m, j, i] = out(f32(before + inside[j, i]))        for all i
        before = f32(before + the last of inside[j])
"""

from __future__ import annotations

import torch
from torch.nn.functional import pad

from lastbit.kernels import Case, Kernel
from lastbit.reference_kernels._cumulative import BLOCK, cumulative_text, standing_for_cumsum


def run(x: torch.Tensor, *, block: int = BLOCK) -> torch.Tensor:
    """Return the running sums of the rows of x[M, K]."""
    m, k = x.shape
    size = min(block, k)
    count = -(-k // size)
    terms = pad(x.float(), (0, count * size - k)).reshape(m, count, size)
    inside = terms.permute(2, 0, 1).contiguous()
    for i in range(1, size):
        inside[i] += inside[i - 1]
    before = torch.zeros(count + 1, m, dtype=torch.float32, device=x.device)
    for j in range(count):
        before[j + 1] = before[j] + inside[-1, :, j]
    sums = inside + before[:-1].t()
    return sums.permute(1, 2, 0).reshape(m, -1)[:, :k].to(x.dtype)


KERNEL = Kernel(
    name="cumsum_torch_blocks",
    computes="the running sums of each row of x[M, K], in blocks",
    run=run,
    program=cumulative_text,
    cases=(
        Case({"M": 20, "K": 70}, "f32", {"block": 16}),
        Case({"M": 9, "K": 40}, "bf16", {"block": 64}),
    ),
    device="any",
    replaces={"aten.cumsum.default": standing_for_cumsum(run)},
)
