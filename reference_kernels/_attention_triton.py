"""One block of keys of attention in Triton: the products, the maximum and the running sums."""

from __future__ import annotations

import triton
import triton.language as tl

from lastbit.reference_kernels._attention import check_block
from lastbit.reference_kernels._triton import exponential, halves

ROWS = 64  # queries of a block of threads


@triton.jit
def attend(
    q, rows, k_ptr, v_ptr, first, count: tl.constexpr, scale, causal: tl.constexpr,
    tall: tl.constexpr, block: tl.constexpr, log_block: tl.constexpr, d: tl.constexpr,
):  # fmt: skip
    """Return top, total and acc of queries after so many keys, from the first."""
    along, across = tl.arange(0, block), tl.arange(0, d)
    top = tl.full([tall], float("-inf"), tl.float32)
    total = tl.zeros([tall], tl.float32)
    acc = tl.zeros([tall, d], tl.float32)
    for start in range(0, count, block):
        at = start + along
        place = (first + at)[:, None] * d + across[None, :]
        inside = at < count
        keys = tl.load(k_ptr + place, mask=inside[:, None], other=0.0)
        values = tl.load(v_ptr + place, mask=inside[:, None], other=0.0)
        s = tl.dot(q, tl.trans(keys)) * scale
        seen = tl.broadcast_to(inside[None, :], [tall, block])
        if causal:
            seen = seen & (at[None, :] <= rows[:, None])
        s = tl.where(seen, s, float("-inf"))
        higher = tl.maximum(top, tl.max(s, 1))
        shrink = exponential(top - higher)
        p = exponential(s - higher[:, None])
        total = tl.math.fma(total, shrink, halves(p, tall, block, log_block))
        # The product has a chain of its own, which begins at zero, and is added with one rounding.
        part = tl.dot(p.to(values.dtype), values)
        acc = tl.math.fma(acc, tl.broadcast_to(shrink[:, None], [tall, d]), part)
        top = higher
    return top, total, acc


def check(d: int, block: int) -> None:
    """Refuse sizes that the kernels do not take."""
    check_block(block)
    if d < 16 or d & (d - 1):
        raise ValueError(f"D is {d}; it is to be a power of 2, 16 or more.")
