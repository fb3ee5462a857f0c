"""DET602 all-reduce-order: each device sums its part, and a ring or a tree adds the parts.

Why it matters: the number of devices, and the algorithm that the library picks by message size and
topology, decide how the partial sums are added. A model served on four devices has other bits than
on two. In a ring every slice of the result starts its round at another device, so that even two
elements of one tensor are summed in other orders.
Legal: where results are compared at one number of devices and by one algorithm.
Error: gamma(K/d + d - 2) times the sum of absolute terms for a ring of d devices, and gamma(K/d - 1
+ log2(d)) for a tree.
Source: Thakur, Rabenseifner and Gropp, "Optimization of Collective Communication Operations in
MPICH" (Int. J. High Performance Computing Applications 19(1), 2005); sglang#34159, vLLM#50299.
See also: RED265, where the parts are rounded too.
"""

from lastbit.change import Change
from lastbit.graph import Node, concat, take
from lastbit.patterns import ONE_FORMAT, Sum, one_by_one, pieces_of, sum_of
from lastbit.rule import Edits, Parameter, Rewrite, Site, breaks, holds, rejects
from lastbit.schedule import Pairwise, Schedule, Split


def _ring(total: Sum, devices: int) -> Node:
    """Return the sum whose slices each begin at the next device and end at their own."""
    used = len(pieces_of(Split(devices), total.length))  # devices without a term add nothing
    shape = total.node.shape
    others = [i for i in range(len(shape)) if i != total.axis]
    if not others:
        return total.over(total.terms, _split(total, devices, _from(1, used)))
    axis = max(others, key=lambda i: (shape[i], i))
    width = -(-shape[axis] // used)
    slices = []
    for device, start in enumerate(range(0, shape[axis], width)):
        terms = take(total.terms, axis, start, min(start + width, shape[axis]))
        slices.append(total.over(terms, _split(total, devices, _from(device + 1, used))))
    return concat(slices, axis)


def _from(first: int, devices: int) -> Schedule:
    """Return the order that begins at a device and ends at the one before it."""
    return one_by_one((first + i) % devices for i in range(devices))


def _split(total: Sum, devices: int, outer: Schedule) -> Split:
    return Split(devices, inner=total.schedule, outer=outer)


def rewrite(site: Site) -> Edits:
    """Sum the parts, and add them as the collective does."""
    total, devices = sum_of(site), site.integer("devices")
    if site.text("algorithm") == "ring":
        return {site.name: total.replaced(_ring(total, devices))}
    return {site.name: total.scheduled(_split(total, devices, Pairwise(1)))}


RULE = Rewrite(
    code="DET602",
    name="all-reduce-order",
    claim=Change.REASSOCIATION,
    prose=__doc__,
    graph="""
        x: f32[M, K]
        w: f32[K, N]
        y: f32 = matmul(x, w) acc f32 seq
        z: f32 = y * 2
        h: f32 = matmul(x, w) acc f32 split(2, partials=bf16)
    """,
    at=("y",),
    sizes={"M": 1, "K": 3, "N": 3},
    rewrite=rewrite,
    parameters=(
        Parameter("devices", "count", "the number of devices", counts="devices"),
        Parameter("algorithm", "choice", "how their parts are added", "ring", ("ring", "tree")),
    ),
    requires=(ONE_FORMAT,),
    examples=(
        breaks(
            {"devices": 3}, x=[[2**24, 1, 1]], w=1, shows="z[0, 0]: 0x4c000000 -> 0x4c000001"
        ),  # the ring begins at the second device
        breaks({"devices": 3}, x=[["-0x1.8p+127", "0x1p+127", "0x1p+127"]], w=1),  # overflows
        holds({"devices": 3, "algorithm": "tree"}, x=[[1, 2, 3]], w=1),  # every sum is exact
        rejects(ONE_FORMAT.text, {"devices": 2}, at=("h",), x=1, w=1),
        rejects("the value holds one sum", {"devices": 2}, at=("z",), x=1, w=1),
    ),
    title=lambda site: (
        f"{site.integer('devices')} devices sum parts of `{site.name}`, which a "
        f"{site.text('algorithm')} adds"
    ),
    loses=("domain", "layout_invariant"),
)
