"""Multiply matrices with K split in pieces, each of which is added to the output atomically.

c: f32 = 0
for each tile of 64 rows and 64 columns, for each piece i of whole tiles of K, in any order:
    part: f32[64, 64] = chain of the matrix unit over the piece
    c[rows, columns] = f32(c[rows, columns] + part)         for each output by itself
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl

from lastbit.kernels import Case, Kernel
from lastbit.reference_kernels._texts import product
from lastbit.reference_kernels._triton import CHAINS, OPTIONS

TILE = 64


@triton.jit
def _multiply_piece(a_ptr, b_ptr, c_ptr, m, n, k, size: tl.constexpr, tile: tl.constexpr):
    rows = tl.program_id(1) * tile + tl.arange(0, tile)
    columns = tl.program_id(2) * tile + tl.arange(0, tile)
    piece = tl.program_id(0)
    along = tl.arange(0, tile)
    acc = tl.zeros([tile, tile], tl.float32)
    for start in range(0, size, tile):
        at = piece * size + start + along
        here = at < k
        a = tl.load(
            a_ptr + rows[:, None] * k + at[None, :],
            mask=(rows[:, None] < m) & here[None, :],
            other=0.0,
        )
        b = tl.load(
            b_ptr + at[:, None] * n + columns[None, :],
            mask=here[:, None] & (columns[None, :] < n),
            other=0.0,
        )
        acc = tl.dot(a, b, acc)
    out = c_ptr + rows[:, None] * n + columns[None, :]
    tl.atomic_add(out, acc, mask=(rows[:, None] < m) & (columns[None, :] < n), sem="relaxed")


def run(a: torch.Tensor, b: torch.Tensor, *, n: int = 4) -> torch.Tensor:
    """Return a[M, K] @ b[K, N] in f32, both row by row."""
    (m, k), width = a.shape, b.shape[1]
    size = triton.cdiv(triton.cdiv(k, TILE), n) * TILE
    c = torch.zeros((m, width), dtype=torch.float32, device=a.device)
    grid = triton.cdiv(k, size), triton.cdiv(m, TILE), triton.cdiv(width, TILE)
    _multiply_piece[grid](
        a.contiguous(), b.contiguous(), c, m, width, k, size, tile=TILE, **OPTIONS
    )
    return c


def program(case: Case) -> str:
    """Return what is executed."""
    inner = CHAINS[case.format]
    schedule = f"split({case['n']}, tile={TILE}, inner={inner}, outer=any_order)"
    return product(case, schedule)


KERNEL = Kernel(
    name="matmul_triton_atomics",
    computes="a[M, K] @ b[K, N] by a matrix unit with K split, pieces added in any order",
    run=run,
    program=program,
    cases=(
        Case({"M": 192, "K": 1024, "N": 128}, "bf16", {"n": 4}),
        Case({"M": 64, "K": 640, "N": 64}, "f16", {"n": 5}),
    ),
    device="cuda",
    deterministic=False,
)
