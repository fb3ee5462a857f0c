"""One chain of additions over K for each output of a matrix product, with torch.

for each row m and column n:
    acc: f32 = 0
    for k in order:
        acc = f32(acc + f32(a[m, k] * b[k, n]))
    c[m, n] = acc
"""

from __future__ import annotations

from collections.abc import Callable

import torch

from lastbit.reference_kernels._arguments import is_float

OUTPUTS = {"f32": torch.float32, "bf16": torch.bfloat16, "f16": torch.float16}
BLOCK = 1 << 14  # outputs at a time: they stay near the processor, and one thread does


def chain(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    """Return a[M, K] @ b[K, N] in f32."""
    (m, k), n = a.shape, b.shape[1]
    left, right = a.float().t().contiguous(), b.float().contiguous()
    acc = torch.zeros(m, n, dtype=torch.float32, device=a.device)
    rows = m if a.is_cuda else max(1, BLOCK // max(n, 1))
    for start in range(0, m, max(rows, 1)):
        block, columns = acc[start : start + rows], left[:, start : start + rows, None]
        term = torch.empty_like(block)
        for i in range(k):
            torch.mul(columns[i], right[i], out=term)
            block += term
    return acc


def standing_for_products(
    batched: Callable[[torch.Tensor, torch.Tensor, torch.Tensor | None], torch.Tensor],
    kinds: tuple[torch.dtype, ...],
) -> dict[str, Callable[..., torch.Tensor | None]]:
    """Return what stands for aten.mm, aten.addmm and aten.bmm.

    Args:
        batched: returns a[B, M, K] @ b[B, K, N] in their type; a bias, or None, is added to the
            binary32 sums before they are rounded to that type.
        kinds: the types that it takes.
    """

    def mm(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor | None:
        return batched(a[None], b[None], None)[0] if is_float(a, b, kinds=kinds) else None

    def addmm(
        bias: torch.Tensor, a: torch.Tensor, b: torch.Tensor, *, beta: float = 1, alpha: float = 1
    ) -> torch.Tensor | None:
        if not is_float(a, b, bias, kinds=kinds) or (alpha, beta) != (1, 1):
            return None
        return batched(a[None], b[None], bias)[0]

    def bmm(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor | None:
        return batched(a, b, None) if is_float(a, b, kinds=kinds) else None

    return {"aten.mm.default": mm, "aten.addmm.default": addmm, "aten.bmm.default": bmm}
