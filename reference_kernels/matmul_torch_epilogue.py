"""Multiply matrices and add a bias, with the rounding between them or without.

for each row m and column n:
    acc: f32 = chain of a[m, k] * b[k, n] over k
    g = bf16(acc) if rounded else acc
    y[m, n] = bf16(f32(g + bias[n]))
"""

from __future__ import annotations

import torch

from lastbit.kernels import Kernel
from lastbit.reference_kernels._chain import chain
from lastbit.reference_kernels._texts import BOTH, biased_product, each


def run(
    a: torch.Tensor, b: torch.Tensor, bias: torch.Tensor, *, rounded: bool = True
) -> torch.Tensor:
    """Return a[M, K] @ b[K, N] + bias[N] in bf16."""
    g = chain(a, b)
    if rounded:
        g = g.bfloat16().float()
    return (g + bias.float()).bfloat16()


KERNEL = Kernel(
    name="matmul_torch_epilogue",
    computes="a[M, K] @ b[K, N] + bias[N], with the product rounded to bf16 or not",
    run=run,
    program=biased_product,
    cases=each({"M": 33, "K": 100, "N": 65}, "bf16", "rounded", BOTH),
    device="any",
)
