"""Softmax of each row, its maximum and its sum in one pass over blocks.

for each row m:
    top: f32, total: f32 = -inf, 0
    for each block of K:
        higher: f32 = max(top, max of x[m, block])
        shrink: f32 = exp(f32(top - higher))
        part: f32 = sum of exp(f32(x[m, k] - higher)) over the block, by halves
        top, total = higher, f32(f32(total * shrink) + part)
    y[m, k] = out(f32(exp(f32(x[m, k] - top)) / total))
"""

from __future__ import annotations

from math import inf

import torch

from lastbit.kernels import Case, Kernel
from lastbit.reference_kernels._exponential import EXP
from lastbit.reference_kernels._lanes import check_blocks, halves
from lastbit.reference_kernels._texts import online_softmax


def run(x: torch.Tensor, *, block: int = 64) -> torch.Tensor:
    """Return the softmax of the rows of x[M, K]; block is a power of 2 that divides K."""
    m, k = x.shape
    check_blocks(k, block)
    wide = x.float()
    top = torch.full((m, 1), -inf, dtype=torch.float32, device=x.device)
    total = torch.zeros_like(top)
    for piece in wide.split(block, 1):
        higher = torch.maximum(top, piece.amax(1, keepdim=True))
        shrink = EXP.call(top - higher)
        total = total * shrink + halves(EXP.call(piece - higher))
        top = higher
    return (EXP.call(wide - top) / total).to(x.dtype)


KERNEL = Kernel(
    name="softmax_torch_online",
    computes="softmax of the rows of x[M, K], maximum and sum in one pass over blocks",
    run=run,
    program=online_softmax,
    cases=(
        Case({"M": 20, "K": 512}, "f32", {"block": 128}),
        Case({"M": 7, "K": 192}, "bf16", {"block": 64}),
    ),
    device="any",
    functions={"exp": EXP},
)
