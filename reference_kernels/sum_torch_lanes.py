"""Add the numbers of each row in lanes.

for each row m:
    acc: f32[lanes] = 0
    for k in order, lanes at a time:
        acc[i] = f32(acc[i] + x[m, k + i])          for all lanes i
    s[m] = out(sum of acc, from left to right)
"""

from __future__ import annotations

import torch

from lastbit.kernels import Case, Kernel
from lastbit.reference_kernels._arguments import as_rows, is_float, reduced_shape

OUTPUTS = {"f32": torch.float32, "bf16": torch.bfloat16, "f16": torch.float16}
LANES = 32


def run(x: torch.Tensor, *, lanes: int = LANES, out: str = "f32") -> torch.Tensor:
    """Return the sums of the rows of x[M, K], as [M, 1]."""
    m, k = x.shape
    acc = torch.zeros(m, min(lanes, k), dtype=torch.float32, device=x.device)
    for start in range(0, k, lanes):
        piece = x[:, start : start + lanes].float()
        acc[:, : piece.shape[1]] += piece
    total = torch.zeros(m, dtype=torch.float32, device=x.device)
    for column in acc.unbind(1):
        total = total + column
    return total[:, None].to(OUTPUTS[out])


def program(case: Case) -> str:
    """Return what is executed."""
    return f"""
        x: {case.format}[M, K]
        s: {case["out"]} = sum(x, axis=1) acc f32 lanes({case["lanes"]})
    """


def sum_dim(
    x: torch.Tensor,
    axes: list[int] | None,
    keepdim: bool = False,
    *,
    dtype: torch.dtype | None = None,
) -> torch.Tensor | None:
    """Stand for aten.sum along axes: in binary32, rounded once at its end."""
    if not is_float(x) or dtype not in (None, x.dtype):
        return None
    rows, shape = as_rows(x, axes)
    total = run(rows).to(x.dtype)
    return total.reshape(reduced_shape(x, axes, shape, keepdim))


def mean_dim(
    x: torch.Tensor,
    axes: list[int] | None,
    keepdim: bool = False,
    *,
    dtype: torch.dtype | None = None,
) -> torch.Tensor | None:
    """Stand for aten.mean along axes: the binary32 sum by the count, rounded once more."""
    if not is_float(x) or dtype not in (None, x.dtype):
        return None
    rows, shape = as_rows(x, axes)
    total = run(rows)
    # Divided by a number, torch on CUDA multiplies with its reciprocal.
    mean = (total / torch.full_like(total, rows.shape[1])).to(x.dtype)
    return mean.reshape(reduced_shape(x, axes, shape, keepdim))


KERNEL = Kernel(
    name="sum_torch_lanes",
    computes="the sum of each row of x[M, K] in lanes",
    run=run,
    program=program,
    cases=(
        Case({"M": 40, "K": 1000}, "f32", {"lanes": 32, "out": "f32"}),
        Case({"M": 9, "K": 257}, "bf16", {"lanes": 8, "out": "bf16"}),
        Case({"M": 5, "K": 3}, "f32", {"lanes": 8, "out": "f32"}),
    ),
    device="any",
    replaces={"aten.sum.dim_IntList": sum_dim, "aten.mean.dim": mean_dim},
)
