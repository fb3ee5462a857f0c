"""DOM514 drop-mask: a masked value is read as if it were not masked.

Why it matters: a compiler that serves a masked load from an earlier, unmasked one, or forgets the
`other` value of a load, reads what lies behind the end: padding, another row, NaN. Sums and maxima
then count elements that do not exist, and results depend on the size of a tile.
Legal: where the mask lets everything through, or what it hides is what it selects.
Error: unbounded; other elements are read.
Source: pytorch#189896 and pytorch#126535 (masks dropped by compiled code).
See also: DOM502 for padding that was never masked.
"""

from lastbit.change import Change
from lastbit.graph import Map, broadcast
from lastbit.patterns import find, is_map, only, replace, same_format
from lastbit.rule import Edits, Rewrite, Site, breaks, holds, rejects

NEED = "the value selects once"


def rewrite(site: Site) -> Edits:
    """Read the selected value everywhere."""
    mask = only(find(site.node, Map, lambda node: is_map(node, "select")), NEED)
    read = broadcast(mask.xs[1], mask.shape)
    return {site.name: same_format(site.node, replace(site.node, mask, read))}


RULE = Rewrite(
    code="DOM514",
    name="drop-mask",
    claim=Change.MATH,
    prose=__doc__,
    graph="""
        x: f32[N]
        k: f32[N]                                  # 0: masked
        y: f32 = select(k, x, 0)
        s: f32 = sum(select(k, x, 0)) acc f32 seq
        z: f32 = x * k
    """,
    at=("y",),
    sizes={"N": 2},
    rewrite=rewrite,
    examples=(
        breaks(x=(1, 7), k=(1, 0), shows="y[1]: 0x00000000 -> 0x40e00000"),  # 7 in place of 0
        breaks(at=("s",), x=(1, 7), k=(1, 0)),  # 8 in place of 1
        breaks(x=float("nan"), k=0),  # what lies behind the end may be anything
        holds(x=(1, 7), k=1),
        holds(x=(1, 0), k=(1, 0)),
        rejects(NEED, at=("z",), x=1, k=1),
    ),
    loses=("domain",),
    title=lambda site: f"`{site.name}` reads masked elements as if they were not masked",
)
