"""Quantize to FP8 with one scale for the tensor, for each row, or for each block of 128 of a row.

for each scope:
    top: f32 = max(max of |x| over the scope, 2^-20)
    s: f32 = top / 448                                  restores: x = q * s
    q = e4m3fn(f32(x / s)), saturated
"""

from __future__ import annotations

import torch

from lastbit.kernels import Case, Kernel

LARGEST = 448.0
FLOOR = float.fromhex("0x1p-20")
BLOCK = 128


def run(x: torch.Tensor, *, scope: str = "row") -> tuple[torch.Tensor, torch.Tensor]:
    """Return x[M, K] in e4m3fn, and its scales."""
    m, k = x.shape
    shape = {"tensor": (1, 1, m * k), "row": (m, 1, k), "block": (m, k // BLOCK, BLOCK)}[scope]
    groups = x.float().reshape(shape)
    top = groups.abs().amax(2, keepdim=True).clamp_min(FLOOR)
    scale = top / torch.full_like(top, LARGEST)  # by a number, CUDA multiplies instead
    codes = (groups / scale).clamp(-LARGEST, LARGEST).to(torch.float8_e4m3fn)
    return codes.reshape(m, k), scale.reshape(shape[:2])


def program(case: Case) -> str:
    """Return what is executed."""
    shape = {
        "tensor": "1, 1, M * K",
        "row": "M, 1, K",
        "block": f"M, K // {BLOCK}, {BLOCK}",
    }[case["scope"]]
    return f"""
        x: {case.format}[M, K]
        g: {case.format} = reshape(x, {shape})
        s: f32 = maximum(amax(g, axis=2), '0x1p-20') / 448
        d: f32 = g / s
        c: e4m3fn = d saturate
        q: e4m3fn = reshape(c, M, K)
        t: f32 = reshape(s, {shape.rpartition(",")[0]})
        return q, t
    """


KERNEL = Kernel(
    name="quantize_torch",
    computes="x[M, K] in e4m3fn, with a scale for the tensor, each row or each block of 128",
    run=run,
    program=program,
    cases=tuple(
        Case({"M": 30, "K": 256}, fmt, {"scope": scope})
        for fmt, scope in (("bf16", "row"), ("bf16", "block"), ("f32", "tensor"), ("f32", "block"))
    ),
    device="any",
    batch_invariant=lambda case: case["scope"] != "tensor",
)
