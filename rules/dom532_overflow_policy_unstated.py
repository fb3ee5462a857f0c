"""DOM532 overflow-policy-unstated: a rounding to 8 bits does not say what its overflow becomes.

Why it matters: of 480 one library makes NaN in e4m3fn and another the largest number, 448; the same
library may do either, by version, by argument or by processor. 464 is a tie and rounds to 448, 465
does not, and infinity saturates in one and not in another. A program that does not say which is
meant is two programs: state `saturate`, `to_nan` or `to_inf`. Where a second graph says something
else than the first, one of the two is wrong.
Legal: where limits or declared ranges exclude overflow, and in formats that can only saturate.
Error: exact for values that round to a finite number.
Source: OCP 8-bit Floating Point Specification (OFP8) 1.0, which allows both; ml_dtypes#400 and
pytorch#178817 (conversions that disagree).
See also: QNT314 for the change from one policy to the other.
"""

from collections.abc import Iterator

from lastbit.change import Change
from lastbit.rule import Danger, Edits, Rewrite, Site, Standing, breaks, holds, rejects
from lastbit.unsafe import values
from lastbit.unsafe.policies import NEED, narrow, saturated, unstated


def finds(standing: Standing) -> Iterator[Danger]:
    """Yield the values that may overflow 8 bits, and do not say what then, or say two things."""
    for name, _ in values(standing.program):
        message = unstated(standing, name)
        if message is not None:
            yield Danger((name,), message)


def rewrite(site: Site) -> Edits:
    """Saturate."""
    return saturated(site)


def title(site: Site) -> str:
    """Say what to state."""
    if any(node.rounding.overflow != "saturate" for node in narrow(site.node)):
        return f"`{site.name}` states `saturate`"
    return f"`{site.name}` states one policy in both graphs"


RULE = Rewrite(
    code="DOM532",
    name="overflow-policy-unstated",
    claim=Change.BITWISE,
    loses=("domain",),
    prose=__doc__,
    graph="""
        x: f32[N]
        q: e4m3fn = x
        p: f32 = round(x, e5m2)
        s: e4m3fn = x saturate
        n: e4m3fn = x to_nan
        r: f32 = round(x, e5m2, to_inf)
        c: e4m3fn = clamp(x, -448, 448)
        m: e2m1 = x                                   # can only saturate
    """,
    at=("q", "p"),
    sizes={"N": 1},
    rewrite=rewrite,
    finds=finds,
    examples=(
        breaks(at=("q",), x=480, shows="q: 0x7f -> 0x7e"),  # 448 in place of NaN
        breaks(at=("p",), x=61440),  # 57344 in place of infinity
        holds(at=("q",), x=464),  # a tie: 448 in either policy
        rejects(NEED, at=("s",), x=480),
    ),
    title=title,
)
