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
from lastbit.reference_kernels._arguments import is_float
from lastbit.reference_kernels._chain import OUTPUTS, chain


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


def product(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    """Return a @ b in the type of the operands."""
    return chain(a, b).to(a.dtype)


def mm(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor | None:
    """Stand for aten.mm."""
    return product(a, b) if is_float(a, b) else None


def addmm(
    bias: torch.Tensor, a: torch.Tensor, b: torch.Tensor, *, beta: float = 1, alpha: float = 1
) -> torch.Tensor | None:
    """Stand for aten.addmm: the bias is added to the binary32 sum, which is rounded then."""
    if not is_float(a, b, bias) or (alpha, beta) != (1, 1):
        return None
    return (chain(a, b) + bias.float()).to(a.dtype)


def bmm(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor | None:
    """Stand for aten.bmm."""
    if not is_float(a, b):
        return None
    if not a.shape[0]:
        return a.new_empty(0, a.shape[1], b.shape[2])
    return torch.stack([product(x, y) for x, y in zip(a, b, strict=True)])


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
    replaces={"aten.mm.default": mm, "aten.addmm.default": addmm, "aten.bmm.default": bmm},
)
