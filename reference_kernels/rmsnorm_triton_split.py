"""Normalise each row by its root mean square, the sum of squares in segments.

    for each row m, for each segment i, each in a block of threads of its own:
        part[i]: f32 = sum of x[m, k]^2 in lanes, which are combined by halves
    for each row m:
        s: f32 = sum of part, from left to right
        r: f32 = 1 / sqrt(s / K + eps), each operation rounded
        y[m, k] = out(f32(f32(x[m, k] * r) * w[k]))

With `by_rows` the number of segments falls with the number of rows: a row then depends on how many
others there are.
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl

from lastbit.kernels import Case, Kernel
from lastbit.reference_kernels._lanes import lanes_of
from lastbit.reference_kernels._norms import EPSILON, split_cases, split_norm
from lastbit.reference_kernels._pieces import is_fixed, pieces, size_of
from lastbit.reference_kernels._triton import OPTIONS, halves, log2


@triton.jit
def _square(x_ptr, part_ptr, k, size: tl.constexpr, lanes: tl.constexpr, log_lanes: tl.constexpr):
    row = (tl.program_id(0) + tl.arange(0, 1)).to(tl.int64)
    segment = tl.program_id(1)
    lane = tl.arange(0, lanes)
    acc = tl.zeros([1, lanes], tl.float32)
    for start in range(0, size, lanes):
        at = start + lane
        place = row[:, None] * k + segment * size + at[None, :]
        x = tl.load(x_ptr + place, mask=at[None, :] < size, other=0.0).to(tl.float32)
        acc = tl.math.fma(x, x, acc)
    part = halves(acc, 1, lanes, log_lanes)
    tl.store(part_ptr + row * tl.num_programs(1) + segment, part)


@triton.jit
def _normalise(
    x_ptr, w_ptr, y_ptr, part_ptr, k, size, eps, count: tl.constexpr, block: tl.constexpr
):
    row = (tl.program_id(0) + tl.arange(0, 1)).to(tl.int64)
    total = tl.zeros([1], tl.float32)
    for i in range(count):
        total = total + tl.load(part_ptr + row * count + i)
    one = tl.full([1], 1.0, tl.float32)
    mean = tl.math.div_rn(total, one * size)
    inverse = tl.math.div_rn(one, tl.math.sqrt_rn(mean + eps))
    at = tl.program_id(1) * block + tl.arange(0, block)
    x = tl.load(x_ptr + row[:, None] * k + at[None, :], mask=at[None, :] < k, other=0.0)
    w = tl.load(w_ptr + at, mask=at < k, other=0.0).to(tl.float32)
    y = x.to(tl.float32) * inverse[:, None] * w[None, :]
    out = y_ptr + row[:, None] * k + at[None, :]
    tl.store(out, y.to(y_ptr.dtype.element_ty), mask=at[None, :] < k)


def run(
    x: torch.Tensor,
    w: torch.Tensor,
    *,
    n: int = 4,
    lanes: int = 256,
    by_rows: bool = False,
    eps: float = EPSILON,
) -> torch.Tensor:
    """Return x[M, K], normalised, times w[K]; the number of segments divides K."""
    m, k = x.shape
    count = pieces(n, m, by_rows)
    size = size_of("K", k, count, "segments")
    x = x.contiguous()
    width = lanes_of(lanes, size)
    parts = torch.empty((m, count), dtype=torch.float32, device=x.device)
    _square[(m, count)](x, parts, k, size, lanes=width, log_lanes=log2(width), **OPTIONS)
    y = torch.empty_like(x)
    grid = m, triton.cdiv(k, 1024)
    _normalise[grid](x, w, y, parts, k, float(k), eps, count, block=1024, **OPTIONS)
    return y


def program(case: Case) -> str:
    """Return what is executed."""
    return split_norm(case, fused=True)


KERNEL = Kernel(
    name="rmsnorm_triton_split",
    computes="RMSNorm of the rows of x[M, K], the sum of squares in segments",
    run=run,
    program=program,
    cases=split_cases(100, 4096, 256),
    device="cuda",
    batch_invariant=is_fixed,
)
