"""Multiply matrices with a matrix unit, one chain over K for each output.

    for each tile of 64 rows and 64 columns:
        acc: f32[64, 64] = 0
        for each tile of 64 of K, in order:
            for each step of the unit (16 of K, or 32 for FP8), in order:
                acc = step(acc, a[rows, step] * b[step, columns])
        c[rows, columns] = out(acc)

A row is computed alike whatever the number of rows: tiles do not change, and what lies outside of
the matrices is read as zero.
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl

from lastbit.kernels import Case, Kernel
from lastbit.reference_kernels._arguments import NARROW
from lastbit.reference_kernels._chain import OUTPUTS, standing_for_products
from lastbit.reference_kernels._texts import product
from lastbit.reference_kernels._triton import CHAINS, OPTIONS

TILE = 64


@triton.jit
def _multiply(
    a_ptr, b_ptr, c_ptr, bias_ptr, m, n, k: tl.constexpr, a_batch, a_row, a_k, b_batch, b_k,
    b_column, bias_row, bias_column, has_bias: tl.constexpr, tile: tl.constexpr,
):  # fmt: skip
    rows = tl.program_id(0) * tile + tl.arange(0, tile)
    columns = tl.program_id(1) * tile + tl.arange(0, tile)
    batch = tl.program_id(2).to(tl.int64)
    along = tl.arange(0, tile)
    a_ptr += batch * a_batch
    b_ptr += batch * b_batch
    acc = tl.zeros([tile, tile], tl.float32)
    for start in range(0, k, tile):
        at = start + along
        a = tl.load(
            a_ptr + rows[:, None].to(tl.int64) * a_row + at[None, :] * a_k,
            mask=(rows[:, None] < m) & (at[None, :] < k),
            other=0.0,
        )
        b = tl.load(
            b_ptr + at[:, None].to(tl.int64) * b_k + columns[None, :] * b_column,
            mask=(at[:, None] < k) & (columns[None, :] < n),
            other=0.0,
        )
        acc = tl.dot(a, b, acc)
    inside = (rows[:, None] < m) & (columns[None, :] < n)
    if has_bias:
        place = rows[:, None].to(tl.int64) * bias_row + columns[None, :] * bias_column
        acc = acc + tl.load(bias_ptr + place, mask=inside, other=0.0).to(tl.float32)
    out = c_ptr + (batch * m + rows[:, None].to(tl.int64)) * n + columns[None, :]
    tl.store(out, acc.to(c_ptr.dtype.element_ty), mask=inside)


def batched(
    a: torch.Tensor, b: torch.Tensor, out: torch.dtype, bias: torch.Tensor | None = None
) -> torch.Tensor:
    """Return a[B, M, K] @ b[B, K, N]; a bias [M, N] is added to the binary32 sums."""
    (count, m, k), n = a.shape, b.shape[2]
    c = torch.empty((count, m, n), dtype=out, device=a.device)
    grid = triton.cdiv(m, TILE), triton.cdiv(n, TILE), count
    if c.numel():
        strides = (0, 0) if bias is None else bias.stride()
        _multiply[grid](
            a, b, c, c if bias is None else bias, m, n, k, *a.stride(), *b.stride(), *strides,
            has_bias=bias is not None, tile=TILE, **OPTIONS,
        )  # fmt: skip
    return c


def run(a: torch.Tensor, b: torch.Tensor, *, out: str = "f32") -> torch.Tensor:
    """Return a[M, K] @ b[K, N]."""
    return batched(a[None], b[None], OUTPUTS[out])[0]


def program(case: Case) -> str:
    """Return what is executed."""
    return product(case, CHAINS[case.format], case["out"])


def products(a: torch.Tensor, b: torch.Tensor, bias: torch.Tensor | None) -> torch.Tensor:
    """Return a[B, M, K] @ b[B, K, N] in their type."""
    bias = None if bias is None else bias.expand(a.shape[1], b.shape[2])
    return batched(a, b, a.dtype, bias)


KERNEL = Kernel(
    name="matmul_triton_chain",
    computes="a[M, K] @ b[K, N] by a matrix unit, one chain over K for each output",
    run=run,
    program=program,
    cases=(
        *(
            Case({"M": 256, "K": 512, "N": 256}, fmt, {"out": "f32"})
            for fmt in ("bf16", "f16", "e4m3fn", "e5m2")
        ),
        Case({"M": 100, "K": 200, "N": 136}, "bf16", {"out": "bf16"}),
        Case({"M": 1, "K": 1000, "N": 72}, "f16", {"out": "f16"}),
    ),
    device="cuda",
    replaces=standing_for_products(products, NARROW),
)
