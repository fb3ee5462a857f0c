"""Attention with the softmax computed online over blocks of keys, by a matrix unit.

    for each block of 64 rows:
        top: f32[64], total: f32[64], acc: f32[64, D] = -inf, 0, 0
        for each block of T keys:
            s: f32 = f32(chain of q[rows, d] * k[t, d] over d * f32(1 / sqrt(D)))
            higher: f32 = max(top, max of s)
            shrink: f32 = exp(f32(top - higher))
            p: f32 = exp(f32(s - higher))
            total = f32(total * shrink + sum of p by halves)            one rounding
            part: f32 = chain of out(p[t]) * v[t, d] over the block, from 0
            acc = f32(acc * shrink + part)                              one rounding
            top = higher
        y[rows] = out(f32(acc / total))

`out` rounds to the format of the operands. A last block that is not full has zeros in its sum.
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl

from lastbit.kernels import Case, Kernel
from lastbit.reference_kernels._arguments import NARROW
from lastbit.reference_kernels._attention import BLOCK, is_attention, online_text, scale_of
from lastbit.reference_kernels._attention_triton import ROWS, attend, check
from lastbit.reference_kernels._triton import CHAINS, EXP, OPTIONS, log2


@triton.jit
def _attention(
    q_ptr, k_ptr, v_ptr, y_ptr, sums_ptr, m, t: tl.constexpr, scale, causal: tl.constexpr,
    tall: tl.constexpr, block: tl.constexpr, log_block: tl.constexpr, d: tl.constexpr,
):  # fmt: skip
    rows = tl.program_id(0) * tall + tl.arange(0, tall)
    head = tl.program_id(1).to(tl.int64)
    place = (head * m + rows[:, None]) * d + tl.arange(0, d)[None, :]
    q = tl.load(q_ptr + place, mask=rows[:, None] < m, other=0.0)
    k_ptr += head * t * d
    v_ptr += head * t * d
    top, total, acc = attend(q, rows, k_ptr, v_ptr, 0, t, scale, causal, tall, block, log_block, d)
    y = tl.math.div_rn(acc, tl.broadcast_to(total[:, None], [tall, d]))
    tl.store(y_ptr + place, y.to(y_ptr.dtype.element_ty), mask=rows[:, None] < m)
    tl.store(sums_ptr + head * m + rows, top + tl.log(total), mask=rows < m)


def heads(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    block: int,
    scale: float | None = None,
    causal: bool = False,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Return the attention of q[H, M, D] over k and v[H, T, D], and the log of its sums."""
    (count, m, d), t = q.shape, k.shape[1]
    check(d, block)
    q, k, v = q.contiguous(), k.contiguous(), v.contiguous()
    y, sums = torch.empty_like(q), q.new_empty(count, m, dtype=torch.float32)
    if y.numel():
        _attention[(triton.cdiv(m, ROWS), count)](
            q, k, v, y, sums, m, t, scale_of(d, scale), causal=causal,
            tall=ROWS, block=block, log_block=log2(block), d=d, **OPTIONS,
        )  # fmt: skip
    return y, sums


def run(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, *, block: int = 64) -> torch.Tensor:
    """Return the attention of q[M, D] over k[T, D] and v[T, D]."""
    return heads(q[None], k[None], v[None], block)[0][0]


def attention(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    dropout_p: float,
    causal: bool,
    scale: float | None,
) -> tuple[torch.Tensor, torch.Tensor] | None:
    """Return the attention of all heads and the log of its sums, where the kernel takes them."""
    if dropout_p or q.dtype not in NARROW or not is_attention(q, k, v, causal):
        return None
    if q.shape[3] < 16 or q.shape[3] & (q.shape[3] - 1):
        return None
    flat = (x.reshape(-1, *x.shape[2:]) for x in (q, k, v))
    y, sums = heads(*flat, BLOCK, scale, causal)
    # In memory a head's columns lie beside those of the next head, as torch's kernels leave them.
    out = y.reshape(q.shape).transpose(1, 2).contiguous().transpose(1, 2)
    return out, sums.reshape(q.shape[:3])


def flash(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    dropout_p: float = 0,
    is_causal: bool = False,
    return_debug_mask: bool = False,
    *,
    scale: float | None = None,
) -> tuple[object, ...] | None:
    """Stand for aten._scaled_dot_product_flash_attention; of its results for training, zeros."""
    found = attention(q, k, v, dropout_p, is_causal, scale)
    if found is None or return_debug_mask:
        return None
    seed = torch.zeros(2, dtype=torch.uint64, device=q.device)
    return *found, None, None, q.shape[2], k.shape[2], seed, seed[:0], q.new_empty(0)


def efficient(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    attn_bias: torch.Tensor | None,
    compute_log_sumexp: bool,
    dropout_p: float = 0,
    is_causal: bool = False,
    *,
    scale: float | None = None,
) -> tuple[object, ...] | None:
    """Stand for aten._scaled_dot_product_efficient_attention, for inference."""
    if attn_bias is not None or compute_log_sumexp:
        return None
    found = attention(q, k, v, dropout_p, is_causal, scale)
    if found is None:
        return None
    seed = torch.zeros((), dtype=torch.int64, device=q.device)
    return found[0], found[1].new_empty(*q.shape[:2], 0), seed, seed


def cudnn(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    attn_bias: torch.Tensor | None,
    compute_log_sumexp: bool,
    dropout_p: float = 0,
    is_causal: bool = False,
    return_debug_mask: bool = False,
    *,
    scale: float | None = None,
) -> tuple[object, ...] | None:
    """Stand for aten._scaled_dot_product_cudnn_attention, for inference."""
    if attn_bias is not None or compute_log_sumexp or return_debug_mask:
        return None
    found = attention(q, k, v, dropout_p, is_causal, scale)
    if found is None:
        return None
    seed = torch.zeros((), dtype=torch.int64, device=q.device)
    empty = q.new_empty(0)
    return found[0], empty, None, None, q.shape[2], k.shape[2], seed, seed, empty


def program(case: Case) -> str:
    """Return what is executed."""
    return online_text(case, CHAINS[case.format], fused=True)


KERNEL = Kernel(
    name="attention_triton_online",
    computes="attention of q[M, D] over k[T, D] and v[T, D], softmax online over blocks of keys",
    run=run,
    program=program,
    cases=(
        Case({"M": 200, "T": 512, "D": 64}, "bf16", {"block": 64}),
        Case({"M": 3, "T": 200, "D": 16}, "f16", {"block": 32}),
        Case({"M": 100, "T": 300, "D": 128}, "bf16", {"block": 64}),
    ),
    device="cuda",
    functions={"exp": EXP},
    replaces={
        "aten._scaled_dot_product_flash_attention.default": flash,
        "aten._scaled_dot_product_efficient_attention.default": efficient,
        "aten._scaled_dot_product_cudnn_attention.default": cudnn,
    },
)
