"""Sums of rows in lanes that are combined by halves, with torch.

for each row m:
    acc: f32[n] = 0
    for k in order, n at a time:
        acc[i] = f32(acc[i] + x[m, k + i])              for all lanes i
    s[m]: f32 = sum of acc, by halves
"""

from __future__ import annotations

import torch


def lanes_of(most: int, k: int) -> int:
    """Return the number of lanes for k elements: a power of 2, and every lane has an element."""
    return min(most, 1 << (max(k, 1).bit_length() - 1))


def lanes_text(most: int, k: int) -> str:
    """Return the schedule of the sum of k elements."""
    return f"lanes({lanes_of(most, k)}, inner=seq, outer=pairwise(1))"


def lane_sums(x: torch.Tensor, most: int) -> torch.Tensor:
    """Return the sums of the rows of f32[M, K], as [M, 1]."""
    n = lanes_of(most, x.shape[1])
    acc = torch.zeros(x.shape[0], n, dtype=torch.float32, device=x.device)
    for start in range(0, x.shape[1], n):
        piece = x[:, start : start + n]
        acc[:, : piece.shape[1]] += piece
    return halves(acc)


def halves(acc: torch.Tensor) -> torch.Tensor:
    """Return the sums of rows of a power of 2 of elements by halves, as [M, 1]."""
    while acc.shape[1] > 1:
        acc = acc[:, 0::2] + acc[:, 1::2]
    return acc


def check_blocks(k: int, block: int) -> None:
    """Refuse blocks of a row that are not added by halves, or of which there is no whole number."""
    if k % block or block & (block - 1):
        raise ValueError(f"K is {k}, and block {block} is no power of 2 that divides it.")
