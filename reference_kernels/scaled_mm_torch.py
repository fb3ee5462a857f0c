"""Multiply FP8 matrices with scales for each row and column, or for each block of 128 of K.

scope "row":
    acc: f32 = chain of a[m, k] * b[k, n] over k
    c[m, n] = bf16(f32(acc * f32(sa[m] * sb[n])))
scope "block":
    acc: f32 = 0
    for each block j of 128 of K:
        part: f32 = chain of a[m, k] * b[k, n] over the block
        acc = f32(acc + f32(part * f32(sa[m, j] * sb[j, n])))
    c[m, n] = bf16(acc)
"""

from __future__ import annotations

import torch

from lastbit.kernels import Kernel
from lastbit.reference_kernels._chain import chain
from lastbit.reference_kernels._texts import BLOCK, each, scaled_product


def run(
    a: torch.Tensor, b: torch.Tensor, sa: torch.Tensor, sb: torch.Tensor, *, scope: str = "row"
) -> torch.Tensor:
    """Return a[M, K] @ b[K, N] by sa[M, J] and sb[J, N], in bf16; J is 1 or K / 128."""
    if scope == "row":
        return (chain(a, b) * (sa * sb)).bfloat16()
    acc = torch.zeros(a.shape[0], b.shape[1], dtype=torch.float32, device=a.device)
    for j in range(a.shape[1] // BLOCK):
        span = slice(j * BLOCK, (j + 1) * BLOCK)
        part = chain(a[:, span], b[span])
        acc = acc + part * (sa[:, j : j + 1] * sb[j : j + 1])
    return acc.bfloat16()


KERNEL = Kernel(
    name="scaled_mm_torch",
    computes="a[M, K] @ b[K, N] of FP8 with scales for rows and columns, or blocks of 128 of K",
    run=run,
    program=scaled_product,
    cases=each({"M": 20, "K": 256, "N": 24}, "e4m3fn", "scope", ("row", "block")),
    device="any",
    positive=frozenset({"sa", "sb"}),
)
