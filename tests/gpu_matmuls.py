"""Matrix products on an NVIDIA GPU: by a kernel of Triton, and by torch's library calls."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
import triton
import triton.language as tl

KINDS = {
    "bf16": torch.bfloat16,
    "f16": torch.float16,
    "e4m3fn": torch.float8_e4m3fn,
    "e5m2": torch.float8_e5m2,
}
TILE = 64


def on_gpu(codes: Any, fmt: str) -> Any:
    """Return codes as a tensor of their format on the GPU."""
    words = np.ascontiguousarray(codes)
    words = words.view(np.int16) if words.itemsize == 2 else words
    return torch.from_numpy(words.copy()).cuda().view(KINDS[fmt])


def bits(tensor: Any) -> Any:
    """Return the bits of a binary32 tensor."""
    return tensor.contiguous().cpu().numpy().view(np.uint32)


@triton.jit
def _dot(a_ptr, b_ptr, c_ptr, n, k, TILE: tl.constexpr):  # noqa: N803
    rows = tl.program_id(0) * TILE + tl.arange(0, TILE)
    columns = tl.program_id(1) * TILE + tl.arange(0, TILE)
    along = tl.arange(0, TILE)
    acc = tl.zeros([TILE, TILE], tl.float32)
    for start in range(0, k, TILE):
        a = tl.load(a_ptr + rows[:, None] * k + start + along[None, :])
        b = tl.load(b_ptr + (start + along[:, None]) * n + columns[None, :])
        acc = tl.dot(a, b, acc)
    tl.store(c_ptr + rows[:, None] * n + columns[None, :], acc)


def triton_dot(a: Any, b: Any) -> Any:
    """Return a @ b by `tl.dot` in binary32; sizes are multiples of 64."""
    (m, k), n = a.shape, b.shape[1]
    out = torch.empty((m, n), dtype=torch.float32, device="cuda")
    _dot[(m // TILE, n // TILE)](a, b, out, n, k, TILE=TILE, num_warps=4)
    return out


def torch_mm(a: Any, b: Any) -> Any:
    """Return a @ b by torch.mm, with a binary32 result."""
    return torch.mm(a, b, out_dtype=torch.float32)


def scaled_mm(a: Any, b: Any, fast: bool) -> Any:
    """Return a @ b by torch._scaled_mm with scales of 1, with a binary32 result."""
    one = torch.ones((), device="cuda")
    columns = b.t().contiguous().t()
    return torch._scaled_mm(
        a, columns, scale_a=one, scale_b=one, out_dtype=torch.float32, use_fast_accum=fast
    )
