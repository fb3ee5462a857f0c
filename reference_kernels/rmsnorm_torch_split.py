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

from lastbit.kernels import Case, Kernel
from lastbit.reference_kernels._lanes import lane_sums
from lastbit.reference_kernels._norms import (
    EPSILON,
    norm_text,
    normalised,
    segments,
    split_schedule,
)


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
    count = segments(n, m, by_rows)
    if k % count:
        raise ValueError(f"K is {k}, which {count} segments do not divide.")
    total = torch.zeros(m, 1, dtype=torch.float32, device=x.device)
    for segment in x.float().square().split(k // count, 1):
        total = total + lane_sums(segment, lanes)
    return normalised(x, w, total, eps)


def program(case: Case) -> str:
    """Return what is executed."""
    return norm_text(case, split_schedule(case))


KERNEL = Kernel(
    name="rmsnorm_torch_split",
    computes="RMSNorm of the rows of x[M, K], the sum of squares in segments",
    run=run,
    program=program,
    cases=tuple(
        Case(
            {"M": m, "K": 1024},
            fmt,
            {"n": 4, "lanes": 64, "by_rows": by_rows, "eps": EPSILON},
        )
        for fmt, m, by_rows in (
            ("f32", 20, False),
            ("bf16", 20, False),
            ("f32", 1, True),
            ("f32", 8, True),
        )
    ),
    device="any",
    batch_invariant=lambda case: not case["by_rows"],
)
