"""RED273 narrow-partials: partial sums are stored in a narrower format than their accumulator.

Why it matters: a split-K kernel that writes its partial sums in the format of the output rounds
each of them, and large ones that cancel leave the error of their size: the partial sums 256.5, -256
and 1 add up to 1.5, and stored in bf16 to 1. Errors of 40 % were reported on results above 1. The
order in which the pieces end then matters as well. Partial sums in the accumulator's format round
once, at the end.
Legal: where both sides state the format of the partial sums.
Error: u of the narrow format times the sum of absolute partial sums.
Source: modular#7165 and aiter#4622 (partial sums in the format of the output).
See also: RED203, which makes such partial sums.
"""

from collections.abc import Iterator

from lastbit.change import Change
from lastbit.rule import Danger, Edits, Rewrite, Site, Standing, breaks, holds, rejects
from lastbit.unsafe import values
from lastbit.unsafe.sums import NO_PARTIALS, narrow_partials, wide_partials


def finds(standing: Standing) -> Iterator[Danger]:
    """Yield the sums whose partial sums are narrower than their accumulator."""
    for name, _ in values(standing.program):
        formats = narrow_partials(standing.program, name)
        if formats is not None:
            narrow, wide = formats
            yield Danger(
                (name,),
                f"partial sums of {wide} are stored in {narrow}, so where they cancel the result "
                f"keeps the error of their size",
            )


def rewrite(site: Site) -> Edits:
    """Keep the partial sums in the format of the accumulator."""
    return wide_partials(site)


RULE = Rewrite(
    code="RED273",
    name="narrow-partials",
    claim=Change.ROUNDING,
    loses=("domain",),
    prose=__doc__,
    graph="""
        x: f32[K]
        y: f32 = sum(x) acc f32 split(3, partials=bf16)
        s: f32 = sum(x) acc f32 split(3)
        p: bf16 = sum(x[0:K//2]) acc f32 seq
        q: bf16 = sum(x[K//2:K]) acc f32 seq
        z: bf16 = p + q
        a: f32 = sum(x[0:K//2]) acc f32 seq
        b: f32 = sum(x[K//2:K]) acc f32 seq
        c: bf16 = a + b
        g: bf16 = sum(x * x) acc f32 seq
        h: bf16 = g + p                               # another sum
    """,
    at=("y", "z"),
    sizes={"K": 3},
    rewrite=rewrite,
    finds=finds,
    examples=(
        breaks(
            at=("y",), x=(256.5, -256, 1), shows="y: 0x3f800000 -> 0x3fc00000"
        ),  # 1.5 in place of 1
        breaks(at=("z",), x=(256.5, -256, 1)),  # 256.5 is 256 in bf16
        holds(at=("y",), x=(1, 2, 3)),  # partial sums of bf16
        rejects(NO_PARTIALS, at=("s",), x=1),
    ),
    title=lambda site: f"the partial sums of `{site.name}` keep their accumulator's format",
)
