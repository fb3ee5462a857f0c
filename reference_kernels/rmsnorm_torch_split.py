"""Normalise each row by its root mean square, the sum of squares in segments.

    for each row m:
        for each segment i:
            part[i]: f32 = sum of f32(x[m, k]^2) in lanes, which are combined by halves
        s: f32 = sum of part, from left to right
        r: f32 = 1 / sqrt(s / K + eps), each operation rounded
        y[m, k] = out(f32(f32(x[m, k] * r) * w[k]))

With `by_rows` the number of segments falls with the number of rows: a row then depends on how many
others there are.
"""

from __future__ import annotations

import torch

from lastbit.kernels import Kernel
from lastbit.reference_kernels._lanes import lane_sums
from lastbit.reference_kernels._norms import EPSILON, normalised, split_cases, split_norm
from lastbit.reference_kernels._pieces import is_fixed, pieces, size_of


def run(
    x: torch.Tensor,
    w: torch.Tensor,
    *,
    n: int = 4,
    lanes: int = 64,
    by_rows: bool = False,
    eps: float = EPSILON,
) -> torch.Tensor:
    """Return x[M, K], normalised, times w[K]; the number of segments divides K."""
    m, k = x.shape
    count = pieces(n, m, by_rows)
    size = size_of("K", k, count, "segments")
    total = torch.zeros(m, 1, dtype=torch.float32, device=x.device)
    for segment in x.float().square().split(size, 1):
        total = total + lane_sums(segment, lanes)
    return normalised(x, w, total, eps)


KERNEL = Kernel(
    name="rmsnorm_torch_split",
    computes="RMSNorm of the rows of x[M, K], the sum of squares in segments",
    run=run,
    program=split_norm,
    cases=split_cases(20, 1024, 64),
    device="any",
    batch_invariant=is_fixed,
)
