"""RED265 row-parallel: a product is split along K over devices, and an all-reduce adds the parts.

Why it matters: in a tensor-parallel layer each device holds some rows of the weight. Its partial
product is rounded to the format of activations before the all-reduce, which rounds again after each
addition, so a model gives other bits on 2 devices than on 1 or 8: it is not layout-invariant. On
one device, or with partial products and all-reduce in the accumulator's format, no such rounding
happens.
Legal: as a change of rounding, where results are compared at one number of devices.
Error: 2n - 1 roundings to the narrow format, u(bf16) = 2^-8 each, times the sum of absolute partial
products.
Source: Shoeybi et al., "Megatron-LM" (arXiv 1909.08053), section 3 (row-parallel linear layers);
vllm#50299, torchtitan#2994.
See also: DET602, where no part is rounded; RED203 on one device.
"""

from lastbit.change import Change
from lastbit.patterns import split_across_blocks, sum_of
from lastbit.rule import Edits, Parameter, Rewrite, Site, breaks, holds, rejects
from lastbit.schedule import Seq, Split


def rewrite(site: Site) -> Edits:
    """Split the sum, with parts and the sum of parts in the format of the all-reduce."""
    total, fmt = sum_of(site), site.text("format")
    schedule = Split(site.integer("n"), inner=total.schedule, outer=Seq(acc=fmt), partials=fmt)
    return {site.name: total.scheduled(schedule)}


RULE = Rewrite(
    code="RED265",
    name="row-parallel",
    claim=Change.ROUNDING,
    prose=__doc__,
    graph="""
        x: bf16[M, K]
        w: bf16[K, N]
        y: bf16 = matmul(x, w) acc f32 seq
        z: bf16 = x * 2
    """,
    at=("y",),
    sizes={"M": 1, "K": 4, "N": 1},
    rewrite=rewrite,
    parameters=(
        Parameter("n", "count", "the number of devices", counts="devices"),
        Parameter("format", "format", "the format of the all-reduce", "bf16"),
    ),
    examples=(
        breaks(
            {"n": 2}, x=[[1, "0x1p-8", -1, "0x1p-8"]], w=1, shows="y: 0x3c00 -> 0x3b80"
        ),  # 2^-8, not 2^-7
        holds({"n": 2}, x=[[1, "0x1p-7", 1, "0x1p-7"]], w=1),  # every part is a bf16
        breaks({"n": 2, "format": "f32"}, x=[[2**24, 1, 1, -(2**24)]], w=1),  # 1, not 0
        rejects("the value holds one sum", {"n": 2}, x=1, w=1, at=("z",)),
    ),
    loses=("domain", "layout_invariant"),
    title=lambda site: (
        f"`{site.name}` is summed on {site.integer('n')} devices and all-reduced in "
        f"{site.text('format')}"
    ),
    places=split_across_blocks,
)
