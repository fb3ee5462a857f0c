"""What kernels of running sums share: their program, and how torch's operator is stood for."""

from __future__ import annotations

from collections.abc import Callable

import torch

from lastbit.kernels import Case
from lastbit.reference_kernels._arguments import along_axis, is_float

BLOCK = 1024  # whatever the length: a prefix does not depend on what follows it


def cumulative_text(case: Case) -> str:
    """Return the program: running sums inside blocks, and what comes before each block."""
    fmt, k, block = case.format, case["K"], case["block"]
    lines = [f"x: {fmt}[M, K]", "before0: f32 = broadcast(0, M, 1)"]
    for j, first in enumerate(range(0, k, block)):
        last = min(first + block, k)
        for i in range(first, last):
            start = "" if i == first else f"p{i - 1} + "
            lines += [f"p{i}: f32 = {start}x[:, {i}:{i + 1}]", f"s{i}: f32 = before{j} + p{i}"]
        lines.append(f"before{j + 1}: f32 = before{j} + p{last - 1}")
    lines += [f"y: {fmt} = concat({', '.join(f's{i}' for i in range(k))}, axis=1)", "return y"]
    return "\n".join(lines)


def standing_for_cumsum(
    run: Callable[[torch.Tensor], torch.Tensor],
) -> Callable[..., torch.Tensor | None]:
    """Return what stands for aten.cumsum, given running sums of rows."""

    def cumsum(
        x: torch.Tensor, axis: int, *, dtype: torch.dtype | None = None
    ) -> torch.Tensor | None:
        if not is_float(x) or dtype not in (None, x.dtype) or not x.dim() or not x.numel():
            return None
        return along_axis(x, axis, run).contiguous()

    return cumsum
