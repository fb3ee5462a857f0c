"""DET607 fuse-all-reduce-norm: a norm reads a sum over devices unrounded, added in any order.

Why it matters: one kernel gathers the devices' partial sums and normalises them. The store between
the two, and its rounding, is gone, and a kernel that adds whatever has arrived gives other bits
from run to run: two changes under one name.
Legal: where neither equal runs nor the rounding of the store are promised.
Error: one rounding less, at most u of the dropped format, and gamma(d - 1) times the sum of
absolute terms for d devices, in every order.
Source: vLLM#51290, vLLM#51292 (the fusion is switched off where batch invariance is asked for);
Higham, Accuracy and Stability of Numerical Algorithms, 2nd ed., sec. 2.2 and 4.2.
See also: FUS102 and DET602 for the two changes alone.
"""

from lastbit.change import Change
from lastbit.graph import Map
from lastbit.patterns import find, inlined, is_map, some, sum_of
from lastbit.rule import Edits, Rewrite, Site, breaks, holds, rejects
from lastbit.schedule import AnyOrder

NEED = "a norm reads the value: x * rsqrt(mean(x^2) + eps)"


def rewrite(site: Site) -> Edits:
    """Write the unrounded sum, in any order, into the norm that reads it."""
    total = sum_of(site)
    edits = inlined(site, site.name, total.over(total.terms, AnyOrder()))
    norms = {
        name: node for name, node in edits.items() if find(node, Map, lambda m: is_map(m, "rsqrt"))
    }
    return some(norms, NEED)


RULE = Rewrite(
    code="DET607",
    name="fuse-all-reduce-norm",
    claim=Change.ROUNDING,
    prose=__doc__,
    graph="""
        part: f32[D, N]
        weight: bf16[1, N]
        h: bf16 = sum(part, axis=0) acc f32 seq
        y: bf16 = rms_norm(h, weight, 1e-6) acc f32 seq
        r: bf16 = sum(part, axis=0) acc f32 seq
        z: bf16 = r * 2
        return y, h, z
    """,
    at=("h",),
    sizes={"D": 2, "N": 2},
    rewrite=rewrite,
    examples=(
        breaks(
            part=[[1, 1], ["0x3p-8", 0]], weight=1, shows="y[0, 1]: 0x3f7e -> 0x3f7f"
        ),  # 1 + 3 * 2^-8 lies between two bf16
        holds(part=[[1, 1], [1, 1]], weight=1),
        rejects(NEED, at=("r",), part=1, weight=1),
    ),
    title=lambda site: (
        f"the norm behind `{site.name}` reads the sum over devices unrounded, in any order"
    ),
    loses=("domain", "deterministic"),
)
