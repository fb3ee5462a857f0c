"""Multiply matrices and add a bias, with the rounding between them or without.

for each tile of 64 rows and 64 columns:
    acc: f32[64, 64] = chain of the matrix unit over K
    g = bf16(acc) if rounded else acc
    y[rows, columns] = bf16(f32(g + bias[columns]))
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl

from lastbit.kernels import Case, Kernel
from lastbit.reference_kernels._texts import BOTH, biased_product, each
from lastbit.reference_kernels._triton import CHAINS, OPTIONS

TILE = 64


@triton.jit
def _multiply(
    a_ptr, b_ptr, bias_ptr, y_ptr, m, n, k: tl.constexpr, rounded: tl.constexpr, tile: tl.constexpr
):
    rows = tl.program_id(0) * tile + tl.arange(0, tile)
    columns = tl.program_id(1) * tile + tl.arange(0, tile)
    along = tl.arange(0, tile)
    acc = tl.zeros([tile, tile], tl.float32)
    for start in range(0, k, tile):
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
        acc = tl.dot(a, b, acc)
    if rounded:
        acc = acc.to(tl.bfloat16).to(tl.float32)
    bias = tl.load(bias_ptr + columns, mask=columns < n, other=0.0).to(tl.float32)
    y = acc + bias[None, :]
    out = y_ptr + rows[:, None] * n + columns[None, :]
    tl.store(out, y.to(tl.bfloat16), mask=(rows[:, None] < m) & (columns[None, :] < n))


def run(
    a: torch.Tensor, b: torch.Tensor, bias: torch.Tensor, *, rounded: bool = True
) -> torch.Tensor:
    """Return a[M, K] @ b[K, N] + bias[N] in bf16; all are row by row."""
    (m, k), n = a.shape, b.shape[1]
    y = torch.empty((m, n), dtype=torch.bfloat16, device=a.device)
    grid = triton.cdiv(m, TILE), triton.cdiv(n, TILE)
    _multiply[grid](
        a.contiguous(), b.contiguous(), bias, y, m, n, k, rounded=rounded, tile=TILE, **OPTIONS
    )
    return y


def program(case: Case) -> str:
    """Return what is executed."""
    return biased_product(case, CHAINS["bf16"])


KERNEL = Kernel(
    name="matmul_triton_epilogue",
    computes="a[M, K] @ b[K, N] + bias[N] by a matrix unit, the product rounded to bf16 or not",
    run=run,
    program=program,
    cases=each({"M": 200, "K": 512, "N": 264}, "bf16", "rounded", BOTH),
    device="cuda",
)
