"""Multiply matrices with K split in pieces, one block of threads each, and add these in order.

    for each tile of 64 rows and 64 columns, for each piece i of whole tiles of K:
        part[i]: f32[64, 64] = chain of the matrix unit over the piece
    for each output:
        acc: f32 = 0
        for i in order:
            acc = f32(acc + part[i])
        c = out(acc)

With `by_rows` the number of pieces falls with the number of rows, as heuristics choose it that fill
a device: a row then depends on how many others there are.
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl

from lastbit.kernels import Case, Kernel
from lastbit.reference_kernels._chain import OUTPUTS
from lastbit.reference_kernels._pieces import is_fixed, pieces, pieces_text
from lastbit.reference_kernels._texts import product
from lastbit.reference_kernels._triton import CHAINS, OPTIONS

TILE = 64


@triton.jit
def _multiply_piece(a_ptr, b_ptr, part_ptr, m, n, k, size: tl.constexpr, tile: tl.constexpr):
    rows = tl.program_id(0) * tile + tl.arange(0, tile)
    columns = tl.program_id(1) * tile + tl.arange(0, tile)
    piece = tl.program_id(2)
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
    out = part_ptr + (piece * m + rows[:, None]) * n + columns[None, :]
    tl.store(out, acc, mask=(rows[:, None] < m) & (columns[None, :] < n))


@triton.jit
def _add_pieces(part_ptr, c_ptr, outputs, pieces: tl.constexpr, block: tl.constexpr):
    at = tl.program_id(0) * block + tl.arange(0, block)
    acc = tl.zeros([block], tl.float32)
    for i in range(pieces):
        acc = acc + tl.load(part_ptr + i * outputs + at, mask=at < outputs, other=0.0)
    tl.store(c_ptr + at, acc.to(c_ptr.dtype.element_ty), mask=at < outputs)


def run(
    a: torch.Tensor, b: torch.Tensor, *, n: int = 4, by_rows: bool = False, out: str = "f32"
) -> torch.Tensor:
    """Return a[M, K] @ b[K, N], both row by row."""
    (m, k), width = a.shape, b.shape[1]
    tiles = triton.cdiv(k, TILE)
    size = triton.cdiv(tiles, pieces(n, m, by_rows, TILE)) * TILE
    count = triton.cdiv(k, size)
    parts = torch.empty((count, m, width), dtype=torch.float32, device=a.device)
    grid = triton.cdiv(m, TILE), triton.cdiv(width, TILE), count
    _multiply_piece[grid](
        a.contiguous(), b.contiguous(), parts, m, width, k, size, tile=TILE, **OPTIONS
    )
    c = torch.empty((m, width), dtype=OUTPUTS[out], device=a.device)
    _add_pieces[(triton.cdiv(m * width, 1024),)](parts, c, m * width, count, block=1024, **OPTIONS)
    return c


def program(case: Case) -> str:
    """Return what is executed."""
    inner = CHAINS[case.format]
    schedule = f"split({pieces_text(case, TILE)}, tile={TILE}, inner={inner}, outer=seq)"
    return product(case, schedule, case["out"])


KERNEL = Kernel(
    name="matmul_triton_split",
    computes="a[M, K] @ b[K, N] by a matrix unit with K split, pieces added from left to right",
    run=run,
    program=program,
    cases=(
        Case({"M": 256, "K": 1024, "N": 256}, "bf16", {"n": 3, "by_rows": False, "out": "f32"}),
        Case({"M": 100, "K": 700, "N": 136}, "f16", {"n": 4, "by_rows": False, "out": "f16"}),
        Case({"M": 16, "K": 1024, "N": 128}, "bf16", {"n": 2, "by_rows": True, "out": "f32"}),
        Case({"M": 64, "K": 1024, "N": 128}, "e4m3fn", {"n": 4, "by_rows": True, "out": "bf16"}),
    ),
    device="cuda",
    batch_invariant=is_fixed,
)
