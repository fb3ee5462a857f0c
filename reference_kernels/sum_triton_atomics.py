"""Add the pieces of each row atomically.

s: f32 = 0
for each block of 64 rows, for each piece i, in any order:
    part: f32[64] = sum of the numbers of the piece, from left to right
    s[rows] = f32(s[rows] + part)                   for each row by itself
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl

from lastbit.kernels import Case, Kernel
from lastbit.reference_kernels._texts import row_sum_of_pieces
from lastbit.reference_kernels._triton import OPTIONS

ROWS = 64


@triton.jit
def _add_piece(x_ptr, s_ptr, m, k, size: tl.constexpr, tall: tl.constexpr):
    piece = tl.program_id(0)
    rows = tl.program_id(1) * tall + tl.arange(0, tall)
    acc = tl.zeros([tall], tl.float32)
    for i in range(size):
        place = rows * k + piece * size + i
        acc = acc + tl.load(x_ptr + place, mask=rows < m, other=0.0).to(tl.float32)
    tl.atomic_add(s_ptr + rows, acc, mask=rows < m, sem="relaxed")


def run(x: torch.Tensor, *, n: int = 4) -> torch.Tensor:
    """Return the sums of the rows of x[M, K], as f32[M, 1]; n divides K."""
    m, k = x.shape
    if k % n:
        raise ValueError(f"K is {k}, which {n} does not divide.")
    s = torch.zeros((m, 1), dtype=torch.float32, device=x.device)
    grid = n, triton.cdiv(m, ROWS)
    _add_piece[grid](x.contiguous(), s, m, k, k // n, tall=ROWS, **OPTIONS)
    return s


KERNEL = Kernel(
    name="sum_triton_atomics",
    computes="the sum of each row of x[M, K], its pieces in any order",
    run=run,
    program=row_sum_of_pieces,
    cases=(Case({"M": 4000, "K": 256}, "f32", {"n": 4}),),
    device="cuda",
    deterministic=False,
)
