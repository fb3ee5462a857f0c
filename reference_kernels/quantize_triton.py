"""Quantize to FP8 with one scale for the tensor, for each row, or for each block of 128 of a row.

for each scope:
    top: f32 = max of |x| over the scope
for each element:
    s: f32 = max(top of its scope, 2^-20) / 448         restores: x = q * s
    q = e4m3fn(f32(x / s)), saturated
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl

from lastbit.kernels import Kernel
from lastbit.reference_kernels._texts import BLOCK, quantized, quantized_cases, scale_is_of_row
from lastbit.reference_kernels._triton import OPTIONS


@triton.jit
def _tops(x_ptr, top_ptr, size: tl.constexpr, block: tl.constexpr):
    scope = tl.program_id(0).to(tl.int64)
    tops = tl.zeros([block], tl.float32)
    for start in range(0, size, block):
        at = start + tl.arange(0, block)
        x = tl.load(x_ptr + scope * size + at, mask=at < size, other=0.0).to(tl.float32)
        tops = tl.maximum(tops, tl.abs(x))
    tl.store(top_ptr + scope, tl.max(tops, 0))


@triton.jit
def _codes(x_ptr, top_ptr, q_ptr, scale_ptr, n, size, block: tl.constexpr):
    at = tl.program_id(0) * block + tl.arange(0, block)
    scope = at // size
    x = tl.load(x_ptr + at, mask=at < n, other=0.0).to(tl.float32)
    top = tl.load(top_ptr + scope, mask=at < n, other=1.0)
    largest = tl.full([block], 448.0, tl.float32)
    scale = tl.math.div_rn(tl.maximum(top, 9.5367431640625e-07), largest)  # 2^-20
    y = tl.minimum(tl.maximum(tl.math.div_rn(x, scale), -448.0), 448.0)
    tl.store(q_ptr + at, y.to(q_ptr.dtype.element_ty), mask=at < n)
    tl.store(scale_ptr + scope, scale, mask=(at < n) & (at == scope * size))


def largest(x: torch.Tensor, size: int) -> torch.Tensor:
    """Return the greatest magnitude of each scope of so many elements."""
    count = x.numel() // size
    tops = torch.empty(count, dtype=torch.float32, device=x.device)
    _tops[(count,)](x, tops, size, block=min(1024, triton.next_power_of_2(size)), **OPTIONS)
    return tops


def run(x: torch.Tensor, *, scope: str = "row") -> tuple[torch.Tensor, torch.Tensor]:
    """Return x[M, K] in e4m3fn, and its scales."""
    x = x.contiguous()
    m, k = x.shape
    shapes = {"tensor": (1, 1), "row": (m, 1), "block": (m, k // BLOCK)}
    size = {"tensor": m * k, "row": k, "block": BLOCK}[scope]
    tops = largest(largest(x, k), m) if scope == "tensor" else largest(x, size)
    q = torch.empty((m, k), dtype=torch.float8_e4m3fn, device=x.device)
    scales = torch.empty(shapes[scope], dtype=torch.float32, device=x.device)
    _codes[(triton.cdiv(m * k, 1024),)](x, tops, q, scales, m * k, size, block=1024, **OPTIONS)
    return q, scales


KERNEL = Kernel(
    name="quantize_triton",
    computes="x[M, K] in e4m3fn, with a scale for the tensor, each row or each block of 128",
    run=run,
    program=quantized,
    cases=quantized_cases(100, 1024),
    device="cuda",
    batch_invariant=scale_is_of_row,
)
