"""Quantize to FP8 with one scale for the tensor, for each row, or for each block of 128 of a row.

for each scope:
    top: f32 = max(max of |x| over the scope, 2^-20)
    s: f32 = top / 448                                  restores: x = q * s
    q = e4m3fn(f32(x / s)), saturated
"""

from __future__ import annotations

import torch

from lastbit.kernels import Kernel
from lastbit.reference_kernels._texts import BLOCK, quantized, quantized_cases, scale_is_of_row

LARGEST = 448.0
FLOOR = float.fromhex("0x1p-20")


def run(x: torch.Tensor, *, scope: str = "row") -> tuple[torch.Tensor, torch.Tensor]:
    """Return x[M, K] in e4m3fn, and its scales."""
    m, k = x.shape
    shape = {"tensor": (1, 1, m * k), "row": (m, 1, k), "block": (m, k // BLOCK, BLOCK)}[scope]
    groups = x.float().reshape(shape)
    top = groups.abs().amax(2, keepdim=True).clamp_min(FLOOR)
    scale = top / torch.full_like(top, LARGEST)  # by a number, CUDA multiplies instead
    codes = (groups / scale).clamp(-LARGEST, LARGEST).to(torch.float8_e4m3fn)
    return codes.reshape(m, k), scale.reshape(shape[:2])


KERNEL = Kernel(
    name="quantize_torch",
    computes="x[M, K] in e4m3fn, with a scale for the tensor, each row or each block of 128",
    run=run,
    program=quantized,
    cases=quantized_cases(30, 256),
    device="any",
    batch_invariant=scale_is_of_row,
)
