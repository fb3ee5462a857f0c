"""QNT330 quantize-before-view: a tensor is quantized before it is transposed or reshaped.

Why it matters: codes move at a half or a quarter of the bytes, so transposing them is cheaper. With
one scale for the tensor every code is the same. A scale for each row is tied to the layout: the
rows of a transposed tensor are its columns, and dividing by the wrong ones is another function.
Legal: always, with one scale for the tensor.
Error: exact.
Source: IEEE 754-2019, clause 4.3 (a rounding is a function of its operand); Micikevicius et al.,
arXiv 2209.05433, section 4.1 (one scale for a tensor).
"""

import math

from lastbit.change import Change
from lastbit.graph import Node, Round, View, apply, reshape
from lastbit.patterns import replace
from lastbit.patterns.quantized import NO_SCALE, grid_at, scaled_at
from lastbit.rule import Edits, MismatchError, Require, Rewrite, Site, holds, rejects

NEED = "what is quantized is a view of one value"


def rewrite(site: Site) -> Edits:
    """Quantize what is viewed, and view the codes."""
    grid, x, scale = scaled_at(site)
    if not isinstance(x, View) or len(x.xs) != 1:
        raise MismatchError(NEED)
    inner = x.xs[0]
    one: Node = reshape(scale, (1,) * len(inner.shape)) if math.prod(scale.shape) == 1 else scale
    codes = Round(apply("div", inner, one), grid.node.rounding)
    return grid.replaced(replace(x, inner, codes))


RULE = Rewrite(
    code="QNT330",
    name="quantize-before-view",
    claim=Change.BITWISE,
    prose=__doc__,
    graph="""
        t: bf16[M, K]
        s: f32 = amax(amax(t, axis=1), axis=0) / 448
        q: e4m3fn = transpose(t) / s saturate
        d: f32 = q * s
        r: f32 = amax(transpose(t), axis=1) / 448
        c: e4m3fn = transpose(t) / r saturate
        e: f32 = c * r
        g: e4m3fn = t / s saturate
        h: e4m3fn = transpose(t) saturate
    """,
    at=("q",),
    sizes={"M": 2, "K": 2},
    rewrite=rewrite,
    requires=(
        Require(
            "the tensor has one scale",
            lambda site: math.prod(scaled_at(site)[2].shape) == 1,
            lambda site: f"scales={list(scaled_at(site)[2].shape)}",
        ),
    ),
    examples=(
        holds(t=[[1, 10], [3, 7]]),
        rejects("the tensor has one scale", at=("c",), t=[[1, 10], [3, 7]]),
        rejects(NEED, at=("g",), t=[[1, 10], [3, 7]]),
        rejects(NO_SCALE, at=("h",), t=[[1, 10], [3, 7]]),
    ),
    title=lambda site: f"`{grid_at(site).name}` is quantized before it is transposed or reshaped",
)
