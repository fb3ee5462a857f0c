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
from lastbit.reference_kernels._lanes import lane_sums
from lastbit.reference_kernels._norms import (
    EPSILON,
    lanes_norm,
    normalised,
    root_of,
    standing_for_rms_norm,
)

LANES = 256


def run(
    x: torch.Tensor, w: torch.Tensor, *, lanes: int = LANES, eps: float = EPSILON
) -> torch.Tensor:
    """Return x[M, K], normalised, times w[K]."""
    return normalised(x, w, lane_sums(x.float().square(), lanes), eps)


def normalise(x: torch.Tensor, w: torch.Tensor, eps: float) -> tuple[torch.Tensor, torch.Tensor]:
    """Return the normalised rows, and the reciprocals of their root mean squares."""
    total = lane_sums(x.float().square(), LANES)
    return normalised(x, w, total, eps), 1 / root_of(total, x.shape[1], eps)


KERNEL = Kernel(
    name="rmsnorm_torch_lanes",
    computes="RMSNorm of the rows of x[M, K], in one pass",
    run=run,
    program=lanes_norm,
    cases=(
        Case({"M": 20, "K": 1000}, "bf16", {"lanes": 64, "eps": EPSILON}),
        Case({"M": 7, "K": 100}, "f32", {"lanes": 256, "eps": EPSILON}),
    ),
    device="any",
    replaces=standing_for_rms_norm(normalise),
)
