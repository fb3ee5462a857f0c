"""SwiGLU: silu(g) * u, with silu(g) rounded to bf16 or not.

for each element:
    e: f32 = exp(-g)                                    a function of the library
    t: f32 = g / f32(1 + e)
    t = bf16(t) if rounded
    y = bf16(f32(t * u))
"""

from __future__ import annotations

import torch

from lastbit.kernels import Kernel
from lastbit.reference_kernels._exponential import EXP
from lastbit.reference_kernels._texts import BOTH, each, swiglu


def run(g: torch.Tensor, u: torch.Tensor, *, rounded: bool = True) -> torch.Tensor:
    """Return silu(g) * u in bf16."""
    wide = g.float()
    t = wide / (1 + EXP.call(-wide))
    if rounded:
        t = t.bfloat16().float()
    return (t * u.float()).bfloat16()


KERNEL = Kernel(
    name="swiglu_torch",
    computes="silu(g) * u, with silu(g) rounded to bf16 or not",
    run=run,
    program=swiglu,
    cases=each({"M": 50, "N": 200}, "bf16", "rounded", BOTH),
    device="any",
    functions={"exp": EXP},
)
