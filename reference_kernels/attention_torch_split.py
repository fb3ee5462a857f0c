"""Attention with keys and values split in parts, which are merged.

    for each row m:
        for each part i of the keys:
            top[i], total[i], acc[i] = attention online over its blocks
        high: f32 = max of top
        all: f32, sum: f32[D] = 0, 0
        for i in order:
            w: f32 = exp(f32(top[i] - high))
            all = f32(all + f32(total[i] * w))
            sum[d] = f32(sum[d] + f32(acc[i][d] * w))
        y[m, d] = out(f32(sum[d] / all))

With `by_rows` the number of parts falls with the number of rows, as when few queries are to fill a
device: a row then depends on how many others there are.
"""

from __future__ import annotations

import torch

from lastbit.kernels import Case, Kernel
from lastbit.reference_kernels._attention import attend, split_text
from lastbit.reference_kernels._exponential import EXP
from lastbit.reference_kernels._pieces import is_fixed, pieces, size_of


def run(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    *,
    n: int = 2,
    block: int = 64,
    by_rows: bool = False,
) -> torch.Tensor:
    """Return the attention of q[M, D] over k[T, D] and v[T, D]; parts are equal."""
    count = pieces(n, q.shape[0], by_rows)
    size = size_of("T", k.shape[0], count, "parts")
    states = [
        attend(q, keys, values, block)
        for keys, values in zip(k.split(size), v.split(size), strict=True)
    ]
    high = states[0].top
    for state in states[1:]:
        high = torch.maximum(high, state.top)
    total, acc = torch.zeros_like(high), torch.zeros_like(states[0].acc)
    for state in states:
        w = EXP.call(state.top - high)
        total = total + state.total * w
        acc = acc + state.acc * w
    return (acc / total).to(q.dtype)


KERNEL = Kernel(
    name="attention_torch_split",
    computes="attention of q[M, D] over k[T, D] and v[T, D] in parts, which are merged",
    run=run,
    program=split_text,
    cases=(
        Case({"M": 20, "T": 256, "D": 64}, "bf16", {"n": 2, "block": 64, "by_rows": False}),
        Case({"M": 2, "T": 256, "D": 16}, "bf16", {"n": 2, "block": 32, "by_rows": True}),
    ),
    device="any",
    batch_invariant=is_fixed,
    functions={"exp": EXP},
)
