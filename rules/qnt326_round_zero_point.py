"""QNT326 round-zero-point: the offset of an asymmetric quantization becomes an integer.

Why it matters: q = x / s - z maps the range of a row onto 0 to 255. An integer z lets zero have a
code of its own, so padding stays exact, and is what integer kernels and ONNX store; calibration
code that keeps min / s as a float gives other codes, off by up to half a step.
Legal: where both sides store the same offset.
Error: half an ulp of the grid in z, and so up to one code in each element; a code at either end may
saturate.
Source: Jacob et al., arXiv 1712.05877, section 2.1 (zero has an exact code); ONNX QuantizeLinear.
"""

from lastbit.change import Change
from lastbit.formats import INT32
from lastbit.graph import Input, Node, Round
from lastbit.patterns import is_map, replace, same_format, unrounded
from lastbit.patterns.quantized import NO_GRID, grid_at
from lastbit.rounding import Rounding
from lastbit.rule import Edits, MismatchError, Rewrite, Site, breaks, holds, rejects

NEED = "a zero point is added or subtracted in front of the rounding to a grid"


def zero_point(site: Site) -> Node:
    """Return the zero point of the quantization at a site.

    Raises:
        MismatchError: it has none.
    """
    x = grid_at(site).node.x
    if not is_map(x, "add", "sub"):
        raise MismatchError(NEED)
    return x.args[1]


def rewrite(site: Site) -> Edits:
    """Round the zero point to an integer, wherever it is read."""
    grid, zero = grid_at(site), zero_point(site)
    whole = Rounding.of(INT32)
    if isinstance(zero, Input) and not site.program.is_input(zero.name):
        root = site.definition(zero.name)
        names = (grid.name, *site.program.consumers(zero.name))
        edits = {name: site.definition(name) for name in names}
        return {**edits, zero.name: same_format(root, Round(unrounded(root), whole))}
    names = (grid.name, *grid.readers)
    return {name: replace(site.definition(name), zero, Round(zero, whole)) for name in names}


RULE = Rewrite(
    code="QNT326",
    name="round-zero-point",
    claim=Change.GRID,
    prose=__doc__,
    graph="""
        t: f32[M, K]
        s: f32 = (max(t) - min(t)) / 255
        z: f32 = min(t) / s
        q: uint8 = t / s - z saturate
        y: f32 = (q + z) * s
        d: uint8 = t / s saturate
        n: f32 = t * 2
    """,
    at=("q",),
    sizes={"M": 1, "K": 2},
    rewrite=rewrite,
    examples=(
        breaks(
            t=[[-1, 254.5]], shows="y[0, 0]: 0xbf800000 -> 0xbf804040"
        ),  # the zero point is -0.998: -1.00196 in place of -1
        holds(t=[[-2, 253]]),  # the zero point is -2
        rejects(NEED, at=("d",), t=[[1, 10]]),
        rejects(NO_GRID, at=("n",), t=[[1, 10]]),
    ),
    title=lambda site: f"the zero point of `{grid_at(site).name}` is rounded to an integer",
    loses=("domain",),
)
