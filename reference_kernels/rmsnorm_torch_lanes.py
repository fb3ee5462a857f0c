"""Normalise each row by its root mean square, in one pass over it.

for each row m:
    acc: f32[lanes] = 0
    for k in order, lanes at a time:
        acc[i] = f32(acc[i] + f32(x[m, k + i]^2))       for all lanes i
    s: f32 = sum of acc, by halves
    r: f32 = 1 / sqrt(s / K + eps), each operation rounded
    y[m, k] = out(f32(f32(x[m, k] * r) * w[k]))
"""

from __future__ import annotations

import torch

from lastbit.kernels import Case, Kernel
from lastbit.reference_kernels._arguments import is_float
from lastbit.reference_kernels._lanes import lane_sums, lanes_text
from lastbit.reference_kernels._norms import EPSILON, norm_text, normalised, root_of

LANES = 256


def run(
    x: torch.Tensor, w: torch.Tensor, *, lanes: int = LANES, eps: float = EPSILON
) -> torch.Tensor:
    """Return x[M, K], normalised, times w[K]."""
    return normalised(x, w, lane_sums(x.float().square(), lanes), eps)


def program(case: Case) -> str:
    """Return what is executed."""
    return norm_text(case, lanes_text(case["lanes"], case["K"]))


def fused_rms_norm(
    x: torch.Tensor, shape: list[int], weight: torch.Tensor | None, eps: float | None
) -> tuple[torch.Tensor, torch.Tensor] | None:
    """Stand for aten._fused_rms_norm: the normalised rows, and the reciprocal roots."""
    if not is_float(x) or list(x.shape[x.dim() - len(shape) :]) != list(shape):
        return None
    if weight is not None and not is_float(x, weight):
        return None
    count = 1
    for size in shape:
        count *= size
    rows = x.reshape(-1, count)
    eps = torch.finfo(torch.float32).eps if eps is None else eps
    total = lane_sums(rows.float().square(), LANES)
    w = torch.ones_like(rows[0]) if weight is None else weight.reshape(-1)
    inverse = 1 / root_of(total, count, eps)
    kept = [*x.shape[: x.dim() - len(shape)], *[1] * len(shape)]
    return normalised(rows, w, total, eps).reshape(x.shape), inverse.reshape(kept)


KERNEL = Kernel(
    name="rmsnorm_torch_lanes",
    computes="RMSNorm of the rows of x[M, K], in one pass",
    run=run,
    program=program,
    cases=(
        Case({"M": 20, "K": 1000}, "bf16", {"lanes": 64, "eps": EPSILON}),
        Case({"M": 7, "K": 100}, "f32", {"lanes": 256, "eps": EPSILON}),
    ),
    device="any",
    replaces={"aten._fused_rms_norm.default": fused_rms_norm},
)
