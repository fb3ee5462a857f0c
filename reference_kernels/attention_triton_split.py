"""Attention with keys and values split in parts, by a matrix unit, and a kernel that merges them.

    for each block of 64 rows, for each part i of the keys:
        top[i], total[i], acc[i] = attention online over its blocks
    for each block of 64 rows:
        high: f32 = max of top
        all: f32, sum: f32[D] = 0, 0
        for i in order:
            w: f32 = exp(f32(top[i] - high))
            all = f32(total[i] * w + all)                   one rounding
            sum[d] = f32(acc[i][d] * w + sum[d])            one rounding
        y[rows] = out(f32(sum / all))

With `by_rows` the number of parts falls with the number of rows, as when few queries are to fill a
device: a row then depends on how many others there are.
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl

from lastbit.kernels import Case, Kernel
from lastbit.reference_kernels._attention import scale_of, split_text
from lastbit.reference_kernels._attention_triton import ROWS, attend, check
from lastbit.reference_kernels._pieces import is_fixed, pieces, size_of
from lastbit.reference_kernels._triton import CHAINS, EXP, OPTIONS, exponential, log2


@triton.jit
def _attend_part(
    q_ptr, k_ptr, v_ptr, top_ptr, total_ptr, acc_ptr, m, size: tl.constexpr, scale,
    tall: tl.constexpr, block: tl.constexpr, log_block: tl.constexpr, d: tl.constexpr,
):  # fmt: skip
    rows = tl.program_id(0) * tall + tl.arange(0, tall)
    part = tl.program_id(1)
    across = tl.arange(0, d)[None, :]
    inside = rows[:, None] < m
    q = tl.load(q_ptr + rows[:, None] * d + across, mask=inside, other=0.0)
    top, total, acc = attend(
        q, rows, k_ptr, v_ptr, part * size, size, scale, False, tall, block, log_block, d
    )
    tl.store(top_ptr + part * m + rows, top, mask=rows < m)
    tl.store(total_ptr + part * m + rows, total, mask=rows < m)
    tl.store(acc_ptr + (part * m + rows[:, None]) * d + across, acc, mask=inside)


@triton.jit
def _merge(
    top_ptr, total_ptr, acc_ptr, y_ptr, m, count: tl.constexpr, tall: tl.constexpr, d: tl.constexpr
):
    rows = tl.program_id(0) * tall + tl.arange(0, tall)
    across = tl.arange(0, d)[None, :]
    inside = rows[:, None] < m
    high = tl.full([tall], float("-inf"), tl.float32)
    for i in range(count):
        high = tl.maximum(high, tl.load(top_ptr + i * m + rows, mask=rows < m, other=0.0))
    total = tl.zeros([tall], tl.float32)
    acc = tl.zeros([tall, d], tl.float32)
    for i in range(count):
        w = exponential(tl.load(top_ptr + i * m + rows, mask=rows < m, other=0.0) - high)
        own = tl.load(total_ptr + i * m + rows, mask=rows < m, other=1.0)
        total = tl.math.fma(own, w, total)
        part = tl.load(acc_ptr + (i * m + rows[:, None]) * d + across, mask=inside, other=0.0)
        acc = tl.math.fma(part, tl.broadcast_to(w[:, None], [tall, d]), acc)
    y = tl.math.div_rn(acc, tl.broadcast_to(total[:, None], [tall, d]))
    tl.store(y_ptr + rows[:, None] * d + across, y.to(y_ptr.dtype.element_ty), mask=inside)


def run(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    *,
    n: int = 2,
    block: int = 64,
    by_rows: bool = False,
) -> torch.Tensor:
    """Return the attention of q[M, D] over k[T, D] and v[T, D]; parts are equal."""
    (m, d), t = q.shape, k.shape[0]
    count = pieces(n, m, by_rows)
    size = size_of("T", t, count, "parts")
    check(d, block)
    tops = torch.empty((count, m), dtype=torch.float32, device=q.device)
    totals = torch.empty_like(tops)
    accs = torch.empty((count, m, d), dtype=torch.float32, device=q.device)
    blocks = triton.cdiv(m, ROWS)
    _attend_part[(blocks, count)](
        q.contiguous(), k.contiguous(), v.contiguous(), tops, totals, accs, m, size,
        scale_of(d), tall=ROWS, block=block, log_block=log2(block), d=d, **OPTIONS,
    )  # fmt: skip
    y = torch.empty((m, d), dtype=q.dtype, device=q.device)
    _merge[(blocks,)](tops, totals, accs, y, m, count, tall=ROWS, d=d, **OPTIONS)
    return y


def program(case: Case) -> str:
    """Return what is executed."""
    return split_text(case, CHAINS[case.format], fused=True)


KERNEL = Kernel(
    name="attention_triton_split",
    computes="attention of q[M, D] over k[T, D] and v[T, D] in parts, which are merged",
    run=run,
    program=program,
    cases=(
        Case({"M": 200, "T": 512, "D": 64}, "bf16", {"n": 4, "block": 64, "by_rows": False}),
        Case({"M": 2, "T": 256, "D": 16}, "bf16", {"n": 2, "block": 32, "by_rows": True}),
    ),
    device="cuda",
    batch_invariant=is_fixed,
    functions={"exp": EXP},
)
