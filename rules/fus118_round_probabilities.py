"""FUS118 round-probabilities: the weights of attention are rounded before they weigh the values.

Why it matters: the second matrix product of attention takes 16-bit operands, so flash kernels round
exp(s - max) to bf16 for it, and mostly add up the unrounded weights for the denominator. A
reference that keeps the weights in f32 gives other bits; so does one that rounds for both sums.
Legal: as a change of rounding, stated on both sides.
Error: each weight within u of the format (2^-8 of bf16), so the result within about u times the
weighted mean of the magnitudes |v|.
Source: Dao et al., "FlashAttention" (arXiv 2205.14135), algorithm 1; Shah et al.,
"FlashAttention-3" (arXiv 2407.08608), section 3, on low-precision second products.
"""

import dataclasses

from lastbit.change import Change
from lastbit.graph import Input, Map, Node, Round, View, topological
from lastbit.patterns import NO_GRID_FORMAT, past_views, replace
from lastbit.patterns.attention import NEED, WEIGHTS_VALUES, WHOLE_ROW, attention_at
from lastbit.patterns.online_softmax import Attention, Operand
from lastbit.rounding import Rounding
from lastbit.rule import Edits, MismatchError, Parameter, Rewrite, Site, breaks, holds, rejects


def _weighing(found: Attention) -> Operand:
    if found.weighted is None:
        raise MismatchError(WEIGHTS_VALUES.text)
    return found.weighted


def rewrite(site: Site) -> Edits:
    """Round the weights where they are multiplied by the values."""
    found, rounding = attention_at(site), Rounding.of(site.text("format"))
    weighing = _weighing(found)
    if found.blocks:
        rounded = dataclasses.replace(weighing, roundings=(*weighing.roundings, rounding))
        again = dataclasses.replace(found, weighted=rounded)
        return found.replaced(site, again.quotient(again.run(found.blocks)))
    terms = weighing.sum.x
    assert isinstance(terms, Map)
    read = next(x for x in terms.xs if x is not weighing.values)
    new = replace(weighing.sum, terms, replace(terms, read, _rounded(read, rounding)))
    edits = {
        name: replace(root, weighing.sum, new)
        for name, root in site.program.nodes.items()
        if any(node.key == weighing.sum.key for node in topological([root]))
    }
    weights = past_views(read)
    if isinstance(weights, Input):  # they are judged as the exponentials that they are
        edits.setdefault(weights.name, site.definition(weights.name))
    return edits


def _rounded(read: Node, rounding: Rounding) -> Node:
    if isinstance(read, View):
        return View(read.kind, (Round(read.xs[0], rounding),), read.params)
    return Round(read, rounding)


RULE = Rewrite(
    code="FUS118",
    name="round-probabilities",
    claim=Change.ROUNDING,
    prose=__doc__,
    graph=WHOLE_ROW + "\nw: f32 = softmax(s) acc f32 seq\n",
    at=("o",),
    sizes={"M": 1, "K": 2, "N": 1},
    rewrite=rewrite,
    parameters=(Parameter("format", "format", "the format of the weights", "bf16"),),
    requires=(NO_GRID_FORMAT,),
    loses=("domain",),
    examples=(
        breaks(s=[[0, 1]], v=[[3], [1]], shows="o: 0x3fc4d959 -> 0x3fc4a79f"),  # exp(-1) is no bf16
        breaks({"format": "f16"}, s=[[0, -20]], v=[[0], [1]]),  # exp(-20) becomes 0
        holds(s=[[1, 1]], v=[[3], [1]]),  # weights of 1
        rejects(NO_GRID_FORMAT.text, {"format": "e4m3fn"}, s=[[0, 1]], v=[[3], [1]]),
        rejects(WEIGHTS_VALUES.text, s=[[0, 1]], v=[[3], [1]], at=("w",)),
        rejects(NEED, s=[[0, 1]], v=[[3], [1]], at=("u",)),
    ),
    title=lambda site: (
        f"the weights in `{site.name}` are rounded to {site.text('format')} "
        "before they weigh the values"
    ),
)
