"""FUS123 gelu-tanh-for-erf: GELU by erf becomes its approximation by tanh, or the reverse.

Why it matters: both are called GELU. A network trained with one and served with the other computes
another function: of the 1922 bf16 numbers with 1/32 <= |x| <= 6, 253 get another bf16 value. It is
a choice of the model's author, never one of a compiler.
Legal: where the author of the model says so.
Error: at most 4.73e-4 absolute, at |x| = 2.70, where the true value is -0.0094 (x < 0); in ulp it
has no bound, since the tails for x < 0 fall at different rates.
Source: Hendrycks and Gimpel, "Gaussian Error Linear Units (GELUs)" (arXiv 1606.08415), section 2;
onnxscript#2132.
"""

from lastbit.change import Change
from lastbit.graph import Map
from lastbit.patterns import find, is_map, only, replace
from lastbit.rule import Edits, Rewrite, Site, breaks, holds, rejects

OTHER = {"gelu": "gelu_tanh", "gelu_tanh": "gelu"}
NEED = "the value holds one GELU"


def _gelu(site: Site) -> Map:
    return only(find(site.node, Map, lambda node: is_map(node, *OTHER)), NEED)


def rewrite(site: Site) -> Edits:
    """Write the other GELU."""
    gelu = _gelu(site)
    return {site.name: replace(site.node, gelu, Map(OTHER[gelu.fn], gelu.xs))}


RULE = Rewrite(
    code="FUS123",
    name="gelu-tanh-for-erf",
    claim=Change.MATH,
    prose=__doc__,
    graph="""
        x: bf16[N]
        y: f32 = gelu(x)
        t: f32 = gelu_tanh(x)
        z: f32 = silu(x)
    """,
    at=("y",),
    sizes={"N": 1},
    rewrite=rewrite,
    examples=(
        breaks(x=-2.703125, shows="y: 0xbc181bf1 -> 0xbc105b1b"),  # -0.0093 against -0.0088
        breaks(x=-2.703125, at=("t",)),
        breaks(x=-14),  # one tail has underflowed
        holds(x=0),
        rejects(NEED, x=1, at=("z",)),
    ),
    title=lambda site: (
        f"`{site.name}` computes GELU by {'tanh' if _gelu(site).fn == 'gelu' else 'erf'} "
        f"instead of {'erf' if _gelu(site).fn == 'gelu' else 'tanh'}"
    ),
)
