"""CVT405 narrow-rotary-angle: the angle of a rotary embedding is held in a narrow format.

Why it matters: the angle is position times frequency, and grows with the position. bf16 has 8
digits, so from 256 on neighbouring positions share one angle, and at 16,000 the step is 64: more
than ten turns of the fastest pair. Position 15962 becomes 15936, and its cosine -0.268 instead of
-0.908.
Legal: below position 2^p (256 for bf16), and for frequencies that the format holds.
Error: u of the format times the angle, as an absolute phase: without bound over positions.
Source: Su et al., "RoFormer: Enhanced Transformer with Rotary Position Embedding" (arXiv
2104.09864); transformers#29285, candle#3520.
See also: CVT431, which finds the position itself in a narrow format.
"""

from lastbit.change import Change
from lastbit.graph import Map, Round
from lastbit.patterns import NO_GRID_FORMAT, find, is_map, only, replace
from lastbit.rounding import Rounding
from lastbit.rule import Edits, Parameter, Rewrite, Site, breaks, holds, rejects

NEED = "the value is one sine or cosine"


def rewrite(site: Site) -> Edits:
    """Round the angle to `format`."""
    wave = only(find(site.node, Map, lambda node: is_map(node, "cos", "sin")), NEED)
    angle = Round(wave.xs[0], Rounding.of(site.text("format")))
    return {site.name: replace(site.node, wave, Map(wave.fn, (angle,)))}


RULE = Rewrite(
    code="CVT405",
    name="narrow-rotary-angle",
    claim=Change.ROUNDING,
    prose=__doc__,
    graph="""
        p: int32[N, 1]                     # positions
        f: f32[1, K]                       # frequencies
        a: f32 = p * f
        c: f32 = cos(a)
        s: f32 = sin(p * f)
        z: f32 = a * 2
    """,
    at=("c",),
    sizes={"N": 1, "K": 1},
    rewrite=rewrite,
    parameters=(Parameter("format", "format", "the format of the angle", "bf16"),),
    requires=(NO_GRID_FORMAT,),
    loses=("domain",),
    examples=(
        breaks(p=15962, f=1, shows="c: 0xbf6873bb -> 0xbe8930c0"),  # the cosine of 15936
        breaks(p=257, f=1, at=("s",)),
        holds(p=255, f=1),
        rejects(NO_GRID_FORMAT.text, {"format": "e4m3fn"}, p=1, f=1),
        rejects(NEED, p=1, f=1, at=("z",)),
    ),
    title=lambda site: f"the angle of `{site.name}` is rounded to {site.text('format')}",
)
