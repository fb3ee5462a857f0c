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
from lastbit.reference_kernels._arguments import standing_for_softmax
from lastbit.reference_kernels._exponential import EXP
from lastbit.reference_kernels._lanes import lane_sums
from lastbit.reference_kernels._texts import two_pass_softmax

LANES = 256


def run(x: torch.Tensor, *, lanes: int = LANES) -> torch.Tensor:
    """Return the softmax of the rows of x[M, K]."""
    wide = x.float()
    e = EXP.call(wide - wide.amax(1, keepdim=True))
    return (e / lane_sums(e, lanes)).to(x.dtype)


def log_softmax(x: torch.Tensor) -> torch.Tensor:
    """Return x - top - log(total) of rows, each operation rounded to binary32."""
    wide = x.float()
    below = wide - wide.amax(1, keepdim=True)
    return (below - torch.log(lane_sums(EXP.call(below), LANES))).to(x.dtype)


KERNEL = Kernel(
    name="softmax_torch_two_pass",
    computes="softmax of the rows of x[M, K], maximum and sum in two passes",
    run=run,
    program=two_pass_softmax,
    cases=(
        Case({"M": 20, "K": 1000}, "f32", {"lanes": 64}),
        Case({"M": 7, "K": 300}, "bf16", {"lanes": 256}),
    ),
    device="any",
    functions={"exp": EXP},
    replaces={
        "aten._softmax.default": standing_for_softmax(run),
        "aten._log_softmax.default": standing_for_softmax(log_softmax),
    },
)
