"""SwiGLU: silu(g) * u, with silu(g) rounded to bf16 or not.

for each element:
    e: f32 = exp(-g)                                    a function of the library
    t: f32 = g / f32(1 + e)
    t = bf16(t) if rounded
    y = bf16(f32(t * u))
"""

from __future__ import annotations

import torch

from lastbit.kernels import Case, Kernel
from lastbit.reference_kernels._exponential import EXP


def run(g: torch.Tensor, u: torch.Tensor, *, rounded: bool = True) -> torch.Tensor:
    """Return silu(g) * u in bf16."""
    wide = g.float()
    t = wide / (1 + EXP.call(-wide))
    if rounded:
        t = t.bfloat16().float()
    return (t * u.float()).bfloat16()


def program(case: Case) -> str:
    """Return what is executed."""
    return f"""
        g: bf16[M, N]
        u: bf16[M, N]
        o: f32 = -g
        e: f32 = exp(o)
        d: f32 = 1 + e
        t: f32 = g / d
        r: {"bf16" if case["rounded"] else "f32"} = t
        z: f32 = r * u
        y: bf16 = z
    """


KERNEL = Kernel(
    name="swiglu_torch",
    computes="silu(g) * u, with silu(g) rounded to bf16 or not",
    run=run,
    program=program,
    cases=tuple(
        Case({"M": 50, "N": 200}, "bf16", {"rounded": rounded}) for rounded in (True, False)
    ),
    device="any",
    functions={"exp": EXP},
)
