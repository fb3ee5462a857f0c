"""Multiply FP8 matrices, with a new chain every 128 of K and a second sum of these.

for each row m and column n:
    acc: f32 = 0
    for each block of 128 of K, in order:
        part: f32 = chain of a[m, k] * b[k, n] over the block, from 0
        acc = f32(acc + part)
    c[m, n] = acc
"""

from __future__ import annotations

import torch

from lastbit.kernels import Case, Kernel
from lastbit.reference_kernels._chain import chain
from lastbit.reference_kernels._texts import BLOCK, promoted_product


def run(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    """Return a[M, K] @ b[K, N] in f32."""
    acc = torch.zeros(a.shape[0], b.shape[1], dtype=torch.float32, device=a.device)
    for start in range(0, a.shape[1], BLOCK):
        acc = acc + chain(a[:, start : start + BLOCK], b[start : start + BLOCK])
    return acc


KERNEL = Kernel(
    name="matmul_torch_promoted",
    computes="a[M, K] @ b[K, N] of FP8, promoted every 128 of K",
    run=run,
    program=promoted_product,
    cases=(
        Case({"M": 20, "K": 300, "N": 24}, "e4m3fn"),
        Case({"M": 20, "K": 256, "N": 24}, "e5m2"),
    ),
    device="any",
)
