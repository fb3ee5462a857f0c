"""Multiply FP8 matrices with scales for each row and column, or for each block of 128 of K.

for each tile of 64 rows and 64 columns:
    scope "row":
        acc: f32 = chain of the matrix unit over K
        c = bf16(f32(acc * f32(sa[rows] * sb[columns])))
    scope "block":
        acc: f32 = 0
        for each block j of 128 of K:
            part: f32 = chain of the matrix unit over the block, from 0
            acc = f32(part * f32(sa[rows, j] * sb[j, columns]) + acc)       one rounding
        c = bf16(acc)
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl

from lastbit.kernels import Case, Kernel
from lastbit.reference_kernels._texts import BLOCK, each, scaled_product
from lastbit.reference_kernels._triton import CHAINS, OPTIONS

TILE = 64


@triton.jit
def _multiply(
    a_ptr, b_ptr, sa_ptr, sb_ptr, c_ptr, m, n, k: tl.constexpr, scales,
    by_block: tl.constexpr, tile: tl.constexpr, block: tl.constexpr,
):  # fmt: skip
    rows = tl.program_id(0) * tile + tl.arange(0, tile)
    columns = tl.program_id(1) * tile + tl.arange(0, tile)
    along = tl.arange(0, block)
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
        if by_block:
            j = start // block
            sa = tl.load(sa_ptr + rows * scales + j, mask=rows < m, other=0.0)
            sb = tl.load(sb_ptr + j * n + columns, mask=columns < n, other=0.0)
            acc = tl.math.fma(tl.dot(a, b), sa[:, None] * sb[None, :], acc)
        else:
            acc = tl.dot(a, b, acc)
    if not by_block:
        sa = tl.load(sa_ptr + rows, mask=rows < m, other=0.0)
        sb = tl.load(sb_ptr + columns, mask=columns < n, other=0.0)
        acc = acc * (sa[:, None] * sb[None, :])
    out = c_ptr + rows[:, None] * n + columns[None, :]
    tl.store(out, acc.to(tl.bfloat16), mask=(rows[:, None] < m) & (columns[None, :] < n))


def run(
    a: torch.Tensor, b: torch.Tensor, sa: torch.Tensor, sb: torch.Tensor, *, scope: str = "row"
) -> torch.Tensor:
    """Return a[M, K] @ b[K, N] by sa[M, J] and sb[J, N], in bf16; J is 1 or K / 128."""
    (m, k), n = a.shape, b.shape[1]
    c = torch.empty((m, n), dtype=torch.bfloat16, device=a.device)
    grid = triton.cdiv(m, TILE), triton.cdiv(n, TILE)
    _multiply[grid](
        a.contiguous(), b.contiguous(), sa.contiguous(), sb.contiguous(), c, m, n, k, sa.shape[1],
        by_block=scope == "block", tile=TILE, block=BLOCK, **OPTIONS,
    )  # fmt: skip
    return c


def program(case: Case) -> str:
    """Return what is executed."""
    return scaled_product(case, CHAINS[case.format], fused=True)


KERNEL = Kernel(
    name="scaled_mm_triton",
    computes="a[M, K] @ b[K, N] of FP8 with scales for rows and columns, or blocks of 128 of K",
    run=run,
    program=program,
    cases=each({"M": 200, "K": 512, "N": 264}, "e4m3fn", "scope", ("row", "block")),
    device="cuda",
    positive=frozenset({"sa", "sb"}),
)
