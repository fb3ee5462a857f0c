"""Multiply matrices with K split in pieces, which are added from left to right.

    for each piece i of whole tiles of K:
        part[i] = 0
        for k in order:
            part[i] = f32(part[i] + f32(a[m, k] * b[k, n]))
    acc: f32 = 0
    for i in order:
        acc = f32(acc + part[i])
    c[m, n] = out(acc)

With `by_rows` the number of pieces falls with the number of rows, as heuristics choose it that fill
a device: a row then depends on how many others there are.
"""

from __future__ import annotations

import torch

from lastbit.kernels import Case, Kernel
from lastbit.reference_kernels._chain import OUTPUTS, chain
from lastbit.reference_kernels._pieces import is_fixed, pieces, pieces_text
from lastbit.reference_kernels._texts import product


def run(
    a: torch.Tensor,
    b: torch.Tensor,
    *,
    n: int = 4,
    tile: int = 16,
    by_rows: bool = False,
    out: str = "f32",
) -> torch.Tensor:
    """Return a[M, K] @ b[K, N]."""
    k = a.shape[1]
    tiles = -(-k // tile)
    size = -(-tiles // pieces(n, a.shape[0], by_rows)) * tile
    acc = torch.zeros(a.shape[0], b.shape[1], dtype=torch.float32, device=a.device)
    for start in range(0, k, size):
        acc = acc + chain(a[:, start : start + size], b[start : start + size])
    return acc.to(OUTPUTS[out])


def program(case: Case) -> str:
    """Return what is executed."""
    schedule = f"split({pieces_text(case)}, tile={case['tile']})"
    return product(case, schedule, case["out"])


KERNEL = Kernel(
    name="matmul_torch_split",
    computes="a[M, K] @ b[K, N] with K split, pieces added from left to right",
    run=run,
    program=program,
    cases=(
        Case(
            {"M": 33, "K": 208, "N": 40},
            "bf16",
            {"n": 4, "tile": 16, "by_rows": False, "out": "f32"},
        ),
        Case(
            {"M": 8, "K": 208, "N": 40}, "bf16", {"n": 4, "tile": 16, "by_rows": True, "out": "f32"}
        ),
        Case(
            {"M": 3, "K": 100, "N": 7}, "f16", {"n": 3, "tile": 16, "by_rows": False, "out": "f16"}
        ),
    ),
    device="any",
    batch_invariant=is_fixed,
)
