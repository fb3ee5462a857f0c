"""FUS101 fuse-elementwise: an elementwise value is computed inside the kernels that read it.

Why it matters: the value is no longer written and read back. Its rounding still happens, in a
register, so the readers see the same bits.
Legal: always, with the rounding kept.
Error: none; the same rounded operations run on the same operands.
Source: Ragan-Kelley et al., "Halide" (PLDI 2013), where `compute_at` moves a producer into the
loops of its consumer and leaves its definition alone.
See also: FUS102 for what happens without the rounding; FUS103 for sums.
"""

from lastbit.change import Change
from lastbit.graph import Reduce
from lastbit.patterns import computed_inside, find, inlined
from lastbit.rule import Edits, MismatchError, Rewrite, Site, holds, rejects

NEED = "the value is computed element by element"


def rewrite(site: Site) -> Edits:
    """Write the value, its rounding included, into each value that reads it."""
    if find(site.node, Reduce):
        raise MismatchError(NEED)
    return inlined(site, site.name, site.node)


RULE = Rewrite(
    code="FUS101",
    name="fuse-elementwise",
    claim=Change.BITWISE,
    prose=__doc__,
    graph="""
        g: bf16[N]
        u: bf16[N]
        t: bf16 = silu(g)
        z: bf16 = t * u
        m: bf16 = amax(z)
        r: bf16 = z / m
        return z, r
    """,
    at=("t",),
    sizes={"N": 2},
    rewrite=rewrite,
    examples=(
        holds(g=(0.75, 1), u=(1.5, 1)),  # without t's rounding, z[0] would be 0x3f44
        holds(g=(0.75, 1), u=(1.5, 1), at=("z",)),  # a value with several readers
        rejects(NEED, g=1, u=1, at=("m",)),
        rejects("another value reads it", g=1, u=1, at=("r",)),
    ),
    title=lambda site: (
        f"`{site.name}` is computed where "
        f"{', '.join(f'`{name}`' for name in site.program.consumers(site.name))} needs it, rounded"
    ),
    placement=True,
    places=computed_inside,
)
