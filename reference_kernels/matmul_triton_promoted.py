"""Multiply FP8 matrices, with a new chain every 128 of K and binary32 sums of these.

for each tile of 64 rows and 64 columns:
    acc: f32[64, 64] = 0
    for each block of 128 of K, in order:
        part: f32[64, 64] = chain of the matrix unit over the block, from 0
        acc = f32(acc + part)
    c[rows, columns] = acc
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl

from lastbit.kernels import Case, Kernel
from lastbit.reference_kernels._texts import BLOCK, promoted_product
from lastbit.reference_kernels._triton import CHAINS, OPTIONS

TILE = 64


@triton.jit
def _multiply(a_ptr, b_ptr, c_ptr, m, n, k: tl.constexpr, tile: tl.constexpr, block: tl.constexpr):
    rows = tl.program_id(0) * tile + tl.arange(0, tile)
    columns = tl.program_id(1) * tile + tl.arange(0, tile)
    along = tl.arange(0, block)
    one = tl.full([tile, tile], 1.0, tl.float32)
    acc = tl.zeros([tile, tile], tl.float32)
    for start in range(0, k, block):
        at = start + along
        a = tl.load(
            a_ptr + rows[:, None] * k + at[None, :],
            mask=(rows[:, None] < m) & (at[None, :] < k),
            other=0.0,
        )
        b = tl.load(
            b_ptr + at[:, None] * n + columns[None, :],
            mask=(at[:, None] < k) & (columns[None, :] < n),
            other=0.0,
        )
        # The compiler may turn `acc + tl.dot(a, b)` into `tl.dot(a, b, acc)`, one chain.
        acc = tl.math.fma(tl.dot(a, b), one, acc)
    out = c_ptr + rows[:, None] * n + columns[None, :]
    tl.store(out, acc, mask=(rows[:, None] < m) & (columns[None, :] < n))


def run(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    """Return a[M, K] @ b[K, N] in f32, both row by row."""
    (m, k), n = a.shape, b.shape[1]
    c = torch.empty((m, n), dtype=torch.float32, device=a.device)
    grid = triton.cdiv(m, TILE), triton.cdiv(n, TILE)
    _multiply[grid](a.contiguous(), b.contiguous(), c, m, n, k, tile=TILE, block=BLOCK, **OPTIONS)
    return c


def program(case: Case) -> str:
    """Return what is executed."""
    return promoted_product(case, f", inner={CHAINS[case.format]}")


KERNEL = Kernel(
    name="matmul_triton_promoted",
    computes="a[M, K] @ b[K, N] of FP8 by a matrix unit, promoted every 128 of K",
    run=run,
    program=program,
    cases=(
        Case({"M": 256, "K": 1024, "N": 256}, "e4m3fn"),
        Case({"M": 100, "K": 640, "N": 136}, "e5m2"),
        Case({"M": 64, "K": 512, "N": 64}, "bf16"),
    ),
    device="cuda",
)
