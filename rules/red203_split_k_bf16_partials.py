"""RED203 split-k-bf16-partials: partial sums are stored in a narrow format before they are added.

Why it matters: a split-K kernel that writes its partial sums in the output's format halves their
traffic and rounds each of them. Large partial sums that cancel leave the error of their size:
256.5, -256 and 1 add up to 1.5, and in bf16 to 1.
Legal: as a change of rounding, stated on both sides.
Error: each partial sum gains a relative error of u of the narrow format (2^-8 of bf16), so the
bound grows by that times the sum of absolute partial sums.
Source: Higham, Accuracy and Stability of Numerical Algorithms, 2nd ed., sec. 4.2; modular#7165; the
setting `allow_bf16_reduced_precision_reduction` of PyTorch.
See also: RED273, which finds such partial sums; RED265 for devices.
"""

from lastbit.change import Change
from lastbit.patterns import PIECES, TILE, pieces_said, split_across_blocks, sum_of, wide_format
from lastbit.rule import Edits, Parameter, Rewrite, Site, breaks, holds, rejects
from lastbit.schedule import Seq, Split


def _schedule(site: Site) -> Split:
    return Split(
        site.integer("n"),
        tile=site.integer("tile"),
        inner=sum_of(site).schedule,
        outer=Seq(),
        partials=wide_format(site).short,
    )


def rewrite(site: Site) -> Edits:
    """Split the schedule of the sum, with partial sums in `format`."""
    return {site.name: sum_of(site).scheduled(_schedule(site))}


RULE = Rewrite(
    code="RED203",
    name="split-k-bf16-partials",
    claim=Change.ROUNDING,
    prose=__doc__,
    graph="""
        x: f32[K]
        y: f32 = sum(x) acc f32 seq
    """,
    at=("y",),
    sizes={"K": 4},
    rewrite=rewrite,
    parameters=(
        PIECES,
        TILE,
        Parameter("format", "format", "the format of the stored partial sums", "bf16"),
    ),
    examples=(
        breaks(
            {"n": 2}, x=(1, "0x1p-8", 1, "0x1p-8"), shows="y: 0x40008000 -> 0x40000000"
        ),  # each partial sum ties in bf16
        holds({"n": 2}, x=(1, "0x1p-7", 1, "0x1p-7")),  # partial sums are bf16 values
        rejects("format is no grid", {"n": 2, "format": "e5m2"}, x=1),
    ),
    loses=("domain",),
    title=lambda site: (
        f"the partial sums of `{site.name}`, of {pieces_said(site, _schedule(site))}, are stored "
        f"in {site.text('format')}"
    ),
    places=split_across_blocks,
)
