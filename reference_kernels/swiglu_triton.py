"""SwiGLU: silu(g) * u, with silu(g) rounded to bf16 or not.

for each element:
    e: f32 = exp(-g)                                    a function of the library
    t: f32 = g / f32(1 + e)
    t = bf16(t) if rounded
    y = bf16(f32(t * u))
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl

from lastbit.kernels import Kernel
from lastbit.reference_kernels._texts import BOTH, each, swiglu
from lastbit.reference_kernels._triton import EXP, OPTIONS, exponential


@triton.jit
def _swiglu(g_ptr, u_ptr, y_ptr, n, rounded: tl.constexpr, block: tl.constexpr):
    at = tl.program_id(0) * block + tl.arange(0, block)
    g = tl.load(g_ptr + at, mask=at < n, other=0.0).to(tl.float32)
    u = tl.load(u_ptr + at, mask=at < n, other=0.0).to(tl.float32)
    t = tl.math.div_rn(g, 1.0 + exponential(-g))
    if rounded:
        t = t.to(tl.bfloat16).to(tl.float32)
    tl.store(y_ptr + at, (t * u).to(tl.bfloat16), mask=at < n)


def run(g: torch.Tensor, u: torch.Tensor, *, rounded: bool = True) -> torch.Tensor:
    """Return silu(g) * u in bf16."""
    y = torch.empty_like(g)
    grid = (triton.cdiv(g.numel(), 1024),)
    _swiglu[grid](g, u, y, g.numel(), rounded=rounded, block=1024, **OPTIONS)
    return y


KERNEL = Kernel(
    name="swiglu_triton",
    computes="silu(g) * u, with silu(g) rounded to bf16 or not",
    run=run,
    program=swiglu,
    cases=each({"M": 100, "N": 2000}, "bf16", "rounded", BOTH),
    device="cuda",
    functions={"exp": EXP},
)
