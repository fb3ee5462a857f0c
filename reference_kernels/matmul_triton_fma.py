"""Multiply matrices with fused multiply-adds, one chain over K for each output.

for each tile of 32 rows and 64 columns:
    acc: f32[32, 64] = 0
    for k in order:
        acc = f32(a[rows, k] * b[k, columns] + acc)
    c[rows, columns] = out(acc)
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl

from lastbit.kernels import Case, Kernel
from lastbit.reference_kernels._chain import OUTPUTS, standing_for_products
from lastbit.reference_kernels._triton import OPTIONS

ROWS, COLUMNS = 32, 64


@triton.jit
def _multiply(
    a_ptr, b_ptr, c_ptr, m, n, k: tl.constexpr, a_batch, a_row, a_k, b_batch, b_k, b_column,
    tall: tl.constexpr, wide: tl.constexpr,
):  # fmt: skip
    rows = tl.program_id(0) * tall + tl.arange(0, tall)
    columns = tl.program_id(1) * wide + tl.arange(0, wide)
    batch = tl.program_id(2).to(tl.int64)
    a_ptr += batch * a_batch
    b_ptr += batch * b_batch
    acc = tl.zeros([tall, wide], tl.float32)
    for i in range(k):
        a = tl.load(a_ptr + rows.to(tl.int64) * a_row + i * a_k, mask=rows < m, other=0.0)
        b = tl.load(b_ptr + columns.to(tl.int64) * b_column + i * b_k, mask=columns < n, other=0.0)
        left = tl.broadcast_to(a.to(tl.float32)[:, None], [tall, wide])
        right = tl.broadcast_to(b.to(tl.float32)[None, :], [tall, wide])
        acc = tl.math.fma(left, right, acc)
    inside = (rows[:, None] < m) & (columns[None, :] < n)
    out = c_ptr + (batch * m + rows[:, None].to(tl.int64)) * n + columns[None, :]
    tl.store(out, acc.to(c_ptr.dtype.element_ty), mask=inside)


def batched(a: torch.Tensor, b: torch.Tensor, out: torch.dtype) -> torch.Tensor:
    """Return a[B, M, K] @ b[B, K, N]."""
    (count, m, k), n = a.shape, b.shape[2]
    c = torch.empty((count, m, n), dtype=out, device=a.device)
    grid = triton.cdiv(m, ROWS), triton.cdiv(n, COLUMNS), count
    if c.numel():
        _multiply[grid](
            a, b, c, m, n, k, *a.stride(), *b.stride(), tall=ROWS, wide=COLUMNS, **OPTIONS
        )
    return c


def run(a: torch.Tensor, b: torch.Tensor, *, out: str = "f32") -> torch.Tensor:
    """Return a[M, K] @ b[K, N]."""
    return batched(a[None], b[None], OUTPUTS[out])[0]


def program(case: Case) -> str:
    """Return what is executed."""
    fmt = case.format
    return f"a: {fmt}[M, K]\nb: {fmt}[K, N]\nc: {case['out']} = matmul(a, b) acc f32 seq"


def products(a: torch.Tensor, b: torch.Tensor, bias: torch.Tensor | None) -> torch.Tensor:
    """Return a[B, M, K] @ b[B, K, N] of f32; a bias is added with a rounding of its own."""
    c = batched(a, b, a.dtype)
    return c if bias is None else c + bias


KERNEL = Kernel(
    name="matmul_triton_fma",
    computes="a[M, K] @ b[K, N] by fused multiply-adds, one chain over K for each output",
    run=run,
    program=program,
    cases=(
        Case({"M": 100, "K": 300, "N": 136}, "f32", {"out": "f32"}),
        Case({"M": 64, "K": 200, "N": 128}, "bf16", {"out": "bf16"}),
    ),
    device="cuda",
    replaces=standing_for_products(products, (torch.float32,)),
)
