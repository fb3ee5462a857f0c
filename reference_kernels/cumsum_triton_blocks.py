"""Running sums of each row: inside blocks, and then of the blocks.

for each row m, for each block j:
    for i in order:
        inside[j, i] = f32(inside[j, i - 1] + x[m, j, i])
for each row m:
    before[0]: f32 = 0
    for each block j, in order:
        before[j + 1] = f32(before[j] + the last of inside[j])
for each element:
    y[m, j, i] = out(f32(before[j] + inside[j, i]))
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl

from lastbit.kernels import Case, Kernel
from lastbit.reference_kernels._cumulative import BLOCK, cumulative_text, standing_for_cumsum
from lastbit.reference_kernels._triton import OPTIONS

MANY = 32  # blocks at a time


@triton.jit
def _add_inside(x_ptr, inside_ptr, m, k, blocks, size: tl.constexpr, many: tl.constexpr):
    at = tl.program_id(0) * many + tl.arange(0, many)
    row, block = (at // blocks).to(tl.int64), at % blocks
    acc = tl.zeros([many], tl.float32)
    for i in range(size):
        place = block * size + i
        there = (row < m) & (place < k)
        acc = acc + tl.load(x_ptr + row * k + place, mask=there, other=0.0).to(tl.float32)
        tl.store(inside_ptr + row * k + place, acc, mask=there)


@triton.jit
def _add_blocks(inside_ptr, before_ptr, k, blocks: tl.constexpr, size: tl.constexpr):
    row = (tl.program_id(0) + tl.arange(0, 1)).to(tl.int64)
    acc = tl.zeros([1], tl.float32)
    tl.store(before_ptr + row * blocks, acc)
    for j in range(1, blocks):
        acc = acc + tl.load(inside_ptr + row * k + j * size - 1)
        tl.store(before_ptr + row * blocks + j, acc)


@triton.jit
def _add_before(
    inside_ptr, before_ptr, y_ptr, n, k, blocks, size: tl.constexpr, many: tl.constexpr
):
    at = tl.program_id(0).to(tl.int64) * many + tl.arange(0, many)
    row = at // k
    before = tl.load(before_ptr + row * blocks + (at - row * k) // size, mask=at < n, other=0.0)
    y = before + tl.load(inside_ptr + at, mask=at < n, other=0.0)
    tl.store(y_ptr + at, y.to(y_ptr.dtype.element_ty), mask=at < n)


def run(x: torch.Tensor, *, block: int = BLOCK) -> torch.Tensor:
    """Return the running sums of the rows of x[M, K]."""
    x = x.contiguous()
    m, k = x.shape
    blocks = triton.cdiv(k, block)
    inside = torch.empty((m, k), dtype=torch.float32, device=x.device)
    before = torch.empty((m, blocks), dtype=torch.float32, device=x.device)
    y = torch.empty_like(x)
    grid = (triton.cdiv(m * blocks, MANY),)
    _add_inside[grid](x, inside, m, k, blocks, size=block, many=MANY, **OPTIONS)
    _add_blocks[(m,)](inside, before, k, blocks, size=block, **OPTIONS)
    grid = (triton.cdiv(m * k, 1024),)
    _add_before[grid](inside, before, y, m * k, k, blocks, size=block, many=1024, **OPTIONS)
    return y


KERNEL = Kernel(
    name="cumsum_triton_blocks",
    computes="the running sums of each row of x[M, K], in blocks",
    run=run,
    program=cumulative_text,
    cases=(
        Case({"M": 200, "K": 300}, "f32", {"block": 64}),
        Case({"M": 90, "K": 40}, "bf16", {"block": 64}),
    ),
    device="cuda",
    replaces={"aten.cumsum.default": standing_for_cumsum(run)},
)
