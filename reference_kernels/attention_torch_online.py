"""Attention with the softmax computed online over blocks of keys.

    for each row m:
        top: f32, total: f32, acc: f32[D] = -inf, 0, 0
        for each block of T keys:
            s[t]: f32 = f32(chain of q[m, d] * k[t, d] over d * f32(1 / sqrt(D)))
            higher: f32 = max(top, max of s)
            shrink: f32 = exp(f32(top - higher))
            p[t]: f32 = exp(f32(s[t] - higher))
            total = f32(f32(total * shrink) + sum of p by halves)
            part[d]: f32 = chain of out(p[t]) * v[t, d] over the block
            acc[d] = f32(f32(acc[d] * shrink) + part[d])
            top = higher
        y[m, d] = out(f32(acc[d] / total))

`out` rounds to the format of the operands. A last block that is not full has zeros in its sum.
"""

from __future__ import annotations

import numpy as np
import torch

from lastbit.kernels import Case, Kernel
from lastbit.reference_kernels._attention import BLOCK, attend, is_attention, online_text
from lastbit.reference_kernels._exponential import EXP


def run(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, *, block: int = 64) -> torch.Tensor:
    """Return the attention of q[M, D] over k[T, D] and v[T, D]."""
    state = attend(q, k, v, block)
    return (state.acc / state.total).to(q.dtype)


def flash_for_cpu(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    dropout_p: float = 0,
    is_causal: bool = False,
    *,
    attn_mask: torch.Tensor | None = None,
    scale: float | None = None,
) -> tuple[torch.Tensor, torch.Tensor] | None:
    """Stand for aten._scaled_dot_product_flash_attention_for_cpu, head by head."""
    if dropout_p or attn_mask is not None or not is_attention(q, k, v, is_causal):
        return None
    out, sums = torch.empty_like(q), q.new_empty(q.shape[:3], dtype=torch.float32)
    for i in np.ndindex(*q.shape[:2]):
        state = attend(q[i], k[i], v[i], BLOCK, scale, is_causal)
        out[i] = (state.acc / state.total).to(q.dtype)
        sums[i] = (state.top + state.total.log())[:, 0]
    return out, sums


KERNEL = Kernel(
    name="attention_torch_online",
    computes="attention of q[M, D] over k[T, D] and v[T, D], softmax online over blocks of keys",
    run=run,
    program=online_text,
    cases=(
        Case({"M": 20, "T": 256, "D": 64}, "bf16", {"block": 64}),
        Case({"M": 3, "T": 100, "D": 16}, "f16", {"block": 32}),
        Case({"M": 4, "T": 70, "D": 32}, "bf16", {"block": 32}),
    ),
    device="any",
    functions={"exp": EXP},
    replaces={"aten._scaled_dot_product_flash_attention_for_cpu.default": flash_for_cpu},
)
