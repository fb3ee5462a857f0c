"""Kernels in plain numpy, where lastbit computes nothing, and references to compare them with."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np

import lastbit

BF16 = ml_dtypes.bfloat16
GATE = {"gate": lastbit.bf16(16, 64), "up": lastbit.bf16(16, 64)}
QUICK = {"depth": 1}


def single(array: Any) -> Any:
    """Return binary32."""
    return np.asarray(array, np.float32)


def to_bf16(x: Any) -> Any:
    """Round binary64 to bfloat16 once; ml_dtypes goes through binary32, which rounds twice."""
    quantum = 2.0 ** (np.frexp(x)[1] - 8.0)
    return (np.rint(x / quantum) * quantum).astype(np.float32).astype(BF16)


def swiglu(gate: Any, up: Any) -> Any:
    """Return the reference, with the activation rounded to bfloat16."""
    t = lastbit.silu(gate).to("bf16")
    return (t * up).to("bf16")


def swiglu_in_numpy(gate: Any, up: Any) -> Any:
    """Round where the reference rounds; binary64 is wide enough for these inputs."""
    g = gate.astype(np.float64)
    t = to_bf16(g / (1 + np.exp(-g)))
    return (single(t) * single(up)).astype(BF16)  # binary32 holds the product


def fused_swiglu(gate: Any, up: Any) -> Any:
    """Keep the activation in a register."""
    g = gate.astype(np.float64)
    return to_bf16(g / (1 + np.exp(-g)) * up.astype(np.float64))


def codes_of(result: Any) -> list[str | None]:
    """Return the codes of the changes of the first variant that is listed."""
    return [change.code for change in result.variants[0].changes]


def matmul(x: Any, w: Any) -> Any:
    """Return the reference: one chain of binary32."""
    return lastbit.matmul(x, w, acc="f32", schedule="seq").to("f32")


def matmul_in_pieces(x: Any, w: Any, size: int, partials: Any = np.float32) -> Any:
    """Sum left to right in pieces of a size, each stored in a format."""
    x, w = single(x), single(w)
    total = np.zeros((x.shape[0], w.shape[1]), np.float32)
    for start in range(0, x.shape[1], size):
        part = np.zeros_like(total)
        for i in range(start, min(start + size, x.shape[1])):
            part = part + x[:, i : i + 1] * w[i : i + 1]
        total = total + single(part.astype(partials))
    return total
