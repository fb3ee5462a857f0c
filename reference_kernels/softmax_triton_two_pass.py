"""Softmax of each row: its maximum first, then the exponentials and their sum.

for each row m:
    top: f32 = max of x[m, :]
    acc: f32[lanes] = 0
    for k in order, lanes at a time:
        acc[i] = f32(acc[i] + exp(f32(x[m, k + i] - top)))      for all lanes i
    total: f32 = sum of acc, by halves
    y[m, k] = out(f32(exp(f32(x[m, k] - top)) / total))
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl

from lastbit.kernels import Case, Kernel
from lastbit.reference_kernels._arguments import standing_for_softmax
from lastbit.reference_kernels._lanes import lanes_of
from lastbit.reference_kernels._texts import two_pass_softmax
from lastbit.reference_kernels._triton import EXP, OPTIONS, exponential, halves, log2

LANES = 256


@triton.jit
def _softmax(x_ptr, y_ptr, k: tl.constexpr, lanes: tl.constexpr, log_lanes: tl.constexpr):
    row = (tl.program_id(0) + tl.arange(0, 1)).to(tl.int64)
    lane = tl.arange(0, lanes)
    tops = tl.full([1, lanes], float("-inf"), tl.float32)
    for start in range(0, k, lanes):
        at = (start + lane)[None, :]
        x = tl.load(x_ptr + row[:, None] * k + at, mask=at < k, other=float("-inf"))
        tops = tl.maximum(tops, x.to(tl.float32))
    top = tl.max(tops, 1)[:, None]
    acc = tl.zeros([1, lanes], tl.float32)
    for start in range(0, k, lanes):
        at = (start + lane)[None, :]
        x = tl.load(x_ptr + row[:, None] * k + at, mask=at < k, other=0.0).to(tl.float32)
        acc = acc + tl.where(at < k, exponential(x - top), 0.0)
    total = halves(acc, 1, lanes, log_lanes)[:, None]
    for start in range(0, k, lanes):
        at = (start + lane)[None, :]
        x = tl.load(x_ptr + row[:, None] * k + at, mask=at < k, other=0.0).to(tl.float32)
        y = tl.math.div_rn(exponential(x - top), tl.broadcast_to(total, [1, lanes]))
        tl.store(y_ptr + row[:, None] * k + at, y.to(y_ptr.dtype.element_ty), mask=at < k)


def run(x: torch.Tensor, *, lanes: int = LANES) -> torch.Tensor:
    """Return the softmax of the rows of x[M, K]."""
    m, k = x.shape
    n = lanes_of(lanes, k)
    y = torch.empty((m, k), dtype=x.dtype, device=x.device)
    _softmax[(m,)](x.contiguous(), y, k, lanes=n, log_lanes=log2(n), **OPTIONS)
    return y


KERNEL = Kernel(
    name="softmax_triton_two_pass",
    computes="softmax of the rows of x[M, K], maximum and sum in two passes",
    run=run,
    program=two_pass_softmax,
    cases=(
        Case({"M": 200, "K": 1000}, "f32", {"lanes": 256}),
        Case({"M": 70, "K": 300}, "bf16", {"lanes": 64}),
    ),
    device="cuda",
    functions={"exp": EXP},
    replaces={"aten._softmax.default": standing_for_softmax(run)},
)
