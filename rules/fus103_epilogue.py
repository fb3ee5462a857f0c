"""FUS103 epilogue: what follows a sum is computed in the kernel of the sum, after all of it.

Why it matters: the sum's result is not written and read back. The accumulator is rounded first, as
its store did, and the sum is complete, so the bits stay.
Legal: always, after the whole sum and behind its rounding.
Error: none; the same rounded operations run on the same operands.
Source: Kerr et al., "CUTLASS: Fast Linear Algebra in CUDA C++" (NVIDIA, 2017), on the epilogue;
Ragan-Kelley et al., "Halide" (PLDI 2013), for `compute_at`.
See also: FUS106 without the rounding; FUS105 before the end of the sum.
"""

from lastbit.change import Change
from lastbit.patterns import computed_inside, inlined, sum_of
from lastbit.rule import Edits, Rewrite, Site, holds, rejects


def rewrite(site: Site) -> Edits:
    """Write the sum, its rounding included, into each value that reads it."""
    sum_of(site)
    return inlined(site, site.name, site.node)


RULE = Rewrite(
    code="FUS103",
    name="epilogue",
    claim=Change.BITWISE,
    prose=__doc__,
    graph="""
        a: bf16[M, K]
        w: bf16[K, N]
        c: bf16 = matmul(a, w) acc f32 seq
        y: bf16 = silu(c)
    """,
    at=("c",),
    sizes={"M": 1, "K": 2, "N": 1},
    rewrite=rewrite,
    examples=(
        holds(a=(1, "0x1p-9"), w=1),  # the sum lies between two bf16 values
        rejects("the value holds one sum", a=1, w=1, at=("y",)),
    ),
    title=lambda site: (
        f"{', '.join(f'`{name}`' for name in site.program.consumers(site.name))} is computed in "
        f"the epilogue of `{site.name}`, from the rounded sum"
    ),
    placement=True,
    places=computed_inside,
)
