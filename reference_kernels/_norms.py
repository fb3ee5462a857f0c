"""What kernels of RMSNorm share."""

from __future__ import annotations

from collections.abc import Callable
from math import prod

import torch

from lastbit.kernels import Case
from lastbit.reference_kernels._arguments import is_float
from lastbit.reference_kernels._lanes import lanes_text
from lastbit.reference_kernels._pieces import pieces, pieces_text

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


def _norm_text(case: Case, schedule: str, fused: bool) -> str:
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


def lanes_norm(case: Case, fused: bool = False) -> str:
    """Return the program whose sum is in lanes; fused: squares are added with one rounding."""
    return _norm_text(case, lanes_text(case["lanes"], case["K"]), fused)


def split_norm(case: Case, fused: bool = False) -> str:
    """Return the program whose sum is in segments; fused: squares are added with one rounding."""
    count = pieces(case["n"], case["M"], case["by_rows"])
    inner = lanes_text(case["lanes"], case["K"] // count)
    return _norm_text(case, f"split({pieces_text(case)}, inner={inner}, outer=seq)", fused)


def split_cases(m: int, k: int, lanes: int) -> tuple[Case, ...]:
    """Return cases of sums in segments: of [M, K], and of few rows that the segments go by."""
    kinds = (("f32", m, False), ("bf16", m, False), ("f32", 1, True), ("f32", 8, True))
    return tuple(
        Case(
            {"M": rows, "K": k},
            fmt,
            {"n": 4, "lanes": lanes, "by_rows": by_rows, "eps": EPSILON},
        )
        for fmt, rows, by_rows in kinds
    )


def standing_for_rms_norm(
    normalise: Callable[[torch.Tensor, torch.Tensor, float], tuple[torch.Tensor, torch.Tensor]],
) -> dict[str, Callable[..., tuple[torch.Tensor, torch.Tensor] | None]]:
    """Return what stands for aten._fused_rms_norm, given normalised rows and reciprocal roots."""

    def fused_rms_norm(
        x: torch.Tensor, shape: list[int], weight: torch.Tensor | None, eps: float | None
    ) -> tuple[torch.Tensor, torch.Tensor] | None:
        if not is_float(x) or list(x.shape[x.dim() - len(shape) :]) != list(shape):
            return None
        if weight is not None and not is_float(x, weight):
            return None
        kept = [*x.shape[: x.dim() - len(shape)], *[1] * len(shape)]
        count = prod(shape)
        rows = x.reshape(-1, count)
        w = rows.new_ones(count) if weight is None else weight.reshape(-1).contiguous()
        y, inverse = normalise(rows, w, torch.finfo(torch.float32).eps if eps is None else eps)
        return y.reshape(x.shape), inverse.reshape(kept)

    return {"aten._fused_rms_norm.default": fused_rms_norm}
