"""What kernels of Triton share: launch options, sums by halves and the exponential function.

A sum is written as an explicit loop or tree, since that of `tl.sum` is not documented; `tl.sum` is
used where all terms but one are zero, and then every tree gives the same bits. Launches forbid the
compiler to contract a product and a sum: where one rounding is meant, `tl.math.fma` stands.
"""

from __future__ import annotations

from typing import Any

import torch
import triton
import triton.language as tl
from triton.language.extra.cuda import libdevice

from lastbit.kernels import Library

OPTIONS: dict[str, Any] = {"num_warps": 4, "enable_fp_fusion": False}
CHAINS = {
    "bf16": "fused(16, hopper)",
    "f16": "fused(16, hopper)",
    "e4m3fn": "fused(32, hopper)",
    "e5m2": "fused(32, hopper)",
}

if triton.knobs.runtime.interpret:  # the interpreter has no libdevice

    @triton.jit
    def exponential(x):
        """Return exp(x)."""
        return tl.exp(x)

else:

    @triton.jit
    def exponential(x):
        """Return exp(x)."""
        return libdevice.exp(x)


@triton.jit
def halves(x, rows: tl.constexpr, n: tl.constexpr, log_n: tl.constexpr):
    """Return the sums of the rows of f32[rows, n] by halves, as f32[rows]; n is a power of 2."""
    for i in tl.static_range(log_n):
        left, right = tl.split(tl.reshape(x, [rows, n >> (i + 1), 2]))
        x = left + right
    return tl.reshape(x, [rows])


@triton.jit
def _exponentials(x_ptr, y_ptr, n, block: tl.constexpr):
    at = tl.program_id(0) * block + tl.arange(0, block)
    x = tl.load(x_ptr + at, mask=at < n, other=0.0)
    tl.store(y_ptr + at, exponential(x), mask=at < n)


def exponentials(x: torch.Tensor) -> torch.Tensor:
    """Return exp of a tensor of f32, as the kernels compute it."""
    y = torch.empty_like(x)
    if x.numel():
        _exponentials[(triton.cdiv(x.numel(), 1024),)](x, y, x.numel(), block=1024, **OPTIONS)
    return y


# CUDA C++ Programming Guide, mathematical functions: expf, which libdevice's exp is, is within
# 2 ulp over the full range. `tl.exp` is not: its error grows with the argument.
EXP = Library(ulp=2, call=exponentials)


def log2(n: int) -> int:
    """Return the logarithm of a power of 2."""
    return n.bit_length() - 1
