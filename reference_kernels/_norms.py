"""What kernels of RMSNorm share."""

from __future__ import annotations

import torch

from lastbit.kernels import Case
from lastbit.reference_kernels._lanes import lanes_text

EPSILON = float.fromhex("0x1p-20")


def root_of(total: torch.Tensor, count: int, eps: float) -> torch.Tensor:
    """Return sqrt(total / count + eps), each operation rounded.

    The divisor is a tensor: by a number, torch on CUDA multiplies with its reciprocal instead. The
    root is taken in binary64: on a CPU torch calls MKL, whose binary32 root of 0x3f652dbc is not
    correctly rounded. A root of 24 digits lies 2^-50 of itself or more from the next midpoint of
    binary32, and so the second rounding is harmless.
    """
    mean = total / torch.full_like(total, count)
    return torch.sqrt((mean + eps).double()).float()


def normalised(x: torch.Tensor, w: torch.Tensor, total: torch.Tensor, eps: float) -> torch.Tensor:
    """Return rows times the reciprocal root of their mean square, and weights."""
    root = root_of(total, x.shape[1], eps)
    return (x.float() * (1 / root) * w.float()).to(x.dtype)


def segments(n: int, rows: int, by_rows: bool) -> int:
    """Return the number of segments."""
    return max(1, 4 * n // max(rows, 1)) if by_rows else n


def norm_text(case: Case, schedule: str, fused: bool = False) -> str:
    """Return the program, given the schedule; fused: squares are added with one rounding."""
    fmt = case.format
    square = "real" if fused or fmt in ("bf16", "f16") else "f32"
    return f"""
        x: {fmt}[M, K]
        w: {fmt}[K]
        p: {square} = x * x
        s: f32 = sum(p, axis=1) acc f32 {schedule}
        v: f32 = s / {case["K"]}
        e: f32 = v + '{torch.tensor(case["eps"]).item().hex()}'
        r: f32 = sqrt(e)
        i: f32 = 1 / r
        n: f32 = x * i
        z: f32 = n * w
        y: {fmt} = z
    """


def split_schedule(case: Case) -> str:
    """Return the schedule of a sum in segments."""
    count = segments(case["n"], case["M"], case["by_rows"])
    number = f"max(1, {4 * case['n']} // M)" if case["by_rows"] else case["n"]
    inner = lanes_text(case["lanes"], case["K"] // count)
    return f"split({number}, inner={inner}, outer=seq)"
