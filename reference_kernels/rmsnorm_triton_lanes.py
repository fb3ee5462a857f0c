"""Normalise each row by its root mean square, in one pass over it.

for each row m:
    acc: f32[lanes] = 0
    for k in order, lanes at a time:
        acc[i] = f32(x[m, k + i]^2 + acc[i])            for all lanes i
    s: f32 = sum of acc, by halves
    r: f32 = 1 / sqrt(s / K + eps), each operation rounded
    y[m, k] = out(f32(f32(x[m, k] * r) * w[k]))
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl

from lastbit.kernels import Case, Kernel
from lastbit.reference_kernels._lanes import lanes_of
from lastbit.reference_kernels._norms import EPSILON, lanes_norm, standing_for_rms_norm
from lastbit.reference_kernels._triton import OPTIONS, halves, log2

LANES = 1024


@triton.jit
def _normalise(
    x_ptr,
    w_ptr,
    y_ptr,
    inverse_ptr,
    k: tl.constexpr,
    size,
    eps,
    lanes: tl.constexpr,
    log_lanes: tl.constexpr,
):
    row = (tl.program_id(0) + tl.arange(0, 1)).to(tl.int64)
    lane = tl.arange(0, lanes)
    acc = tl.zeros([1, lanes], tl.float32)
    for start in range(0, k, lanes):
        at = start + lane
        x = tl.load(x_ptr + row[:, None] * k + at[None, :], mask=at[None, :] < k, other=0.0)
        wide = x.to(tl.float32)
        acc = tl.math.fma(wide, wide, acc)
    total = halves(acc, 1, lanes, log_lanes)
    one = tl.full([1], 1.0, tl.float32)
    mean = tl.math.div_rn(total, one * size)
    inverse = tl.math.div_rn(one, tl.math.sqrt_rn(mean + eps))
    tl.store(inverse_ptr + row, inverse)
    for start in range(0, k, lanes):
        at = start + lane
        x = tl.load(x_ptr + row[:, None] * k + at[None, :], mask=at[None, :] < k, other=0.0)
        w = tl.load(w_ptr + at, mask=at < k, other=0.0).to(tl.float32)
        y = x.to(tl.float32) * inverse[:, None] * w[None, :]
        out = y_ptr + row[:, None] * k + at[None, :]
        tl.store(out, y.to(y_ptr.dtype.element_ty), mask=at[None, :] < k)


def normalise(
    x: torch.Tensor, w: torch.Tensor, lanes: int, eps: float
) -> tuple[torch.Tensor, torch.Tensor]:
    """Return the normalised rows, and the reciprocals of their root mean squares."""
    m, k = x.shape
    n = lanes_of(lanes, k)
    y = torch.empty((m, k), dtype=x.dtype, device=x.device)
    inverse = torch.empty((m, 1), dtype=torch.float32, device=x.device)
    if m:
        _normalise[(m,)](
            x.contiguous(), w, y, inverse, k, float(k), eps, lanes=n, log_lanes=log2(n), **OPTIONS
        )
    return y, inverse


def run(
    x: torch.Tensor, w: torch.Tensor, *, lanes: int = LANES, eps: float = EPSILON
) -> torch.Tensor:
    """Return x[M, K], normalised, times w[K]."""
    return normalise(x, w, lanes, eps)[0]


def program(case: Case) -> str:
    """Return what is executed."""
    return lanes_norm(case, fused=True)


KERNEL = Kernel(
    name="rmsnorm_triton_lanes",
    computes="RMSNorm of the rows of x[M, K], in one pass",
    run=run,
    program=program,
    cases=(
        Case({"M": 100, "K": 4096}, "bf16", {"lanes": 1024, "eps": EPSILON}),
        Case({"M": 70, "K": 1000}, "f32", {"lanes": 256, "eps": EPSILON}),
    ),
    device="cuda",
    replaces=standing_for_rms_norm(lambda x, w, eps: normalise(x, w, LANES, eps)),
)
