"""Is it safe to fuse the product of a gated block into the activation? Try it in five lines.

    lastbit check examples/check_swiglu.py:before examples/check_swiglu.py:fused

`before` rounds the activation to bfloat16, as two kernels do that pass it through memory. `fused`
keeps it exact until the product is rounded: a rounding disappears, and some results move by one
ulp. `rounded` is fused too but rounds where `before` does, and every bit stays:

    lastbit check examples/check_swiglu.py:before examples/check_swiglu.py:rounded
"""

import lastbit


def before(gate, up):
    """Round the activation, then the product."""
    t = lastbit.silu(gate).to("bf16")
    return (t * up).to("bf16")


def fused(gate, up):
    """Round the product alone."""
    return (lastbit.silu(gate) * up).to("bf16")


def rounded(gate, up):
    """Round in the registers of one kernel as two kernels do."""
    return (up * lastbit.silu(gate).to("bf16")).to("bf16")


before.inputs = {"gate": "bf16[M, 4096]", "up": "bf16[M, 4096]"}
