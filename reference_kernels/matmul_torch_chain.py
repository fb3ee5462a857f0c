"""Multiply matrices, adding the products of each output one after the other.

    for each row m and column n:
        acc: f32 = 0
        for k in order:
            acc = f32(acc + f32(a[m, k] * b[k, n]))
        c[m, n] = out(acc)

A product of two numbers of bf16 or f16 is exact in binary32; only one of two f32 is rounded.
"""

from __future__ import annotations

import torch

from lastbit.kernels import Case, Kernel
from lastbit.reference_kernels._arguments import FLOATS
from lastbit.reference_kernels._chain import OUTPUTS, chain, standing_for_products


def run(a: torch.Tensor, b: torch.Tensor, *, out: str = "f32") -> torch.Tensor:
    """Return a[M, K] @ b[K, N]."""
    return chain(a, b).to(OUTPUTS[out])


def program(case: Case) -> str:
    """Return what is executed."""
    fmt, out = case.format, case["out"]
    if fmt != "f32":
        return f"a: {fmt}[M, K]\nb: {fmt}[K, N]\nc: {out} = matmul(a, b) acc f32 seq"
    return f"""
        a: f32[M, K]
        b: f32[K, N]
        p: f32 = reshape(a, M, 1, K) * reshape(transpose(b), 1, N, K)
        c: {out} = reshape(sum(p, axis=2), M, N) acc f32 seq
    """


def products(a: torch.Tensor, b: torch.Tensor, bias: torch.Tensor | None) -> torch.Tensor:
    """Return a[B, M, K] @ b[B, K, N] in their type; a bias is added to the binary32 sums."""
    sums = torch.empty(*a.shape[:2], b.shape[2], dtype=torch.float32, device=a.device)
    for i in range(len(a)):
        sums[i] = chain(a[i], b[i])
    return (sums if bias is None else sums + bias.float()).to(a.dtype)


KERNEL = Kernel(
    name="matmul_torch_chain",
    computes="a[M, K] @ b[K, N], one chain of additions over K for each output",
    run=run,
    program=program,
    cases=(
        Case({"M": 33, "K": 200, "N": 65}, "bf16", {"out": "f32"}),
        Case({"M": 16, "K": 96, "N": 40}, "f16", {"out": "f16"}),
        Case({"M": 24, "K": 70, "N": 20}, "f32", {"out": "f32"}),
    ),
    device="any",
    replaces=standing_for_products(products, FLOATS),
)
