"""Softmax of each row, its maximum and its sum in one pass over blocks.

for each row m:
    top: f32, total: f32 = -inf, 0
    for each block of K:
        higher: f32 = max(top, max of x[m, block])
        shrink: f32 = exp(f32(top - higher))
        part: f32 = sum of exp(f32(x[m, k] - higher)) over the block, by halves
        top, total = higher, f32(total * shrink + part)         one rounding
    y[m, k] = out(f32(exp(f32(x[m, k] - top)) / total))
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl

from lastbit.kernels import Case, Kernel
from lastbit.reference_kernels._lanes import check_blocks
from lastbit.reference_kernels._texts import online_softmax
from lastbit.reference_kernels._triton import EXP, OPTIONS, exponential, halves, log2


@triton.jit
def _softmax(x_ptr, y_ptr, k: tl.constexpr, block: tl.constexpr, log_block: tl.constexpr):
    row = (tl.program_id(0) + tl.arange(0, 1)).to(tl.int64)
    along = tl.arange(0, block)[None, :]
    top = tl.full([1], float("-inf"), tl.float32)
    total = tl.zeros([1], tl.float32)
    for start in range(0, k, block):
        x = tl.load(x_ptr + row[:, None] * k + start + along).to(tl.float32)
        higher = tl.maximum(top, tl.max(x, 1))
        shrink = exponential(top - higher)
        part = halves(exponential(x - higher[:, None]), 1, block, log_block)
        total = tl.math.fma(total, shrink, part)
        top = higher
    for start in range(0, k, block):
        x = tl.load(x_ptr + row[:, None] * k + start + along).to(tl.float32)
        below = tl.broadcast_to(total[:, None], [1, block])
        y = tl.math.div_rn(exponential(x - top[:, None]), below)
        tl.store(y_ptr + row[:, None] * k + start + along, y.to(y_ptr.dtype.element_ty))


def run(x: torch.Tensor, *, block: int = 64) -> torch.Tensor:
    """Return the softmax of the rows of x[M, K]; block is a power of 2 that divides K."""
    m, k = x.shape
    check_blocks(k, block)
    y = torch.empty((m, k), dtype=x.dtype, device=x.device)
    _softmax[(m,)](x.contiguous(), y, k, block=block, log_block=log2(block), **OPTIONS)
    return y


def program(case: Case) -> str:
    """Return what is executed."""
    return online_softmax(case, fused=True)


KERNEL = Kernel(
    name="softmax_triton_online",
    computes="softmax of the rows of x[M, K], maximum and sum in one pass over blocks",
    run=run,
    program=program,
    cases=(
        Case({"M": 200, "K": 1024}, "f32", {"block": 256}),
        Case({"M": 70, "K": 192}, "bf16", {"block": 64}),
    ),
    device="cuda",
    functions={"exp": EXP},
)
