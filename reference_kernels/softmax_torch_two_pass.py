"""Softmax of each row: its maximum first, then the exponentials and their sum.

for each row m:
    top: f32 = max of x[m, :]
    e[k]: f32 = exp(f32(x[m, k] - top))                 a function of the library
    acc: f32[lanes] = 0
    for k in order, lanes at a time:
        acc[i] = f32(acc[i] + e[k + i])                 for all lanes i
    total: f32 = sum of acc, by halves
    y[m, k] = out(f32(e[k] / total))
"""

from __future__ import annotations

import torch

from lastbit.kernels import Case, Kernel
from lastbit.reference_kernels._arguments import is_float
from lastbit.reference_kernels._exponential import EXP
from lastbit.reference_kernels._lanes import lane_sums, lanes_text

LANES = 256


def run(x: torch.Tensor, *, lanes: int = LANES) -> torch.Tensor:
    """Return the softmax of the rows of x[M, K]."""
    wide = x.float()
    e = EXP.call(wide - wide.amax(1, keepdim=True))
    return (e / lane_sums(e, lanes)).to(x.dtype)


def program(case: Case) -> str:
    """Return what is executed."""
    return f"""
        x: {case.format}[M, K]
        top: f32 = max(x, axis=1)
        d: f32 = x - top
        e: f32 = exp(d)
        s: f32 = sum(e, axis=1) acc f32 {lanes_text(case["lanes"], case["K"])}
        z: f32 = e / s
        y: {case.format} = z
    """


def softmax(x: torch.Tensor, axis: int, half_to_float: bool = False) -> torch.Tensor | None:
    """Stand for aten._softmax."""
    if not is_float(x) or half_to_float or not x.dim() or not x.numel():
        return None
    moved = x.movedim(axis, -1)
    rows = moved.reshape(-1, moved.shape[-1])
    return run(rows).reshape(moved.shape).movedim(-1, axis)


def log_softmax(x: torch.Tensor, axis: int, half_to_float: bool = False) -> torch.Tensor | None:
    """Stand for aten._log_softmax: x - top - log(total), each operation rounded to binary32."""
    if not is_float(x) or half_to_float or not x.dim() or not x.numel():
        return None
    moved = x.movedim(axis, -1)
    rows = moved.reshape(-1, moved.shape[-1]).float()
    below = rows - rows.amax(1, keepdim=True)
    result = below - torch.log(lane_sums(EXP.call(below), LANES))
    return result.to(x.dtype).reshape(moved.shape).movedim(-1, axis)


KERNEL = Kernel(
    name="softmax_torch_two_pass",
    computes="softmax of the rows of x[M, K], maximum and sum in two passes",
    run=run,
    program=program,
    cases=(
        Case({"M": 20, "K": 1000}, "f32", {"lanes": 64}),
        Case({"M": 7, "K": 300}, "bf16", {"lanes": 256}),
    ),
    device="any",
    functions={"exp": EXP},
    replaces={"aten._softmax.default": softmax, "aten._log_softmax.default": log_softmax},
)
