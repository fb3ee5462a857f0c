"""RED259 log-softmax: the logarithm of a softmax is computed as x - max - log(sum of exp(x - max)).

Why it matters: over the reals the two are the same. Rounded, the weight of a score that lies 104
below the maximum is 0 in binary32, and its logarithm -inf: a loss that should be 104 is infinite.
The difference has no such end. It is the safer direction; the reverse is a defect.
Legal: as a change of rounding that widens the domain; the reverse narrows it.
Error: two roundings of numbers as large as |x - max|, against one of the weight, which the
logarithm turns into an absolute error of u.
Source: Blanchard, D. J. Higham and N. J. Higham, "Accurately computing the log-sum-exp and softmax
functions" (IMA J. Numer. Anal. 41(4), 2021).
"""

from lastbit.change import Change
from lastbit.graph import Input, Map, Node, Round, apply
from lastbit.patterns import find, is_map, only, replace, same_format
from lastbit.patterns.attention import attention_at
from lastbit.rule import Edits, MismatchError, Rewrite, Site, breaks, holds, rejects

NEED = "the value is the logarithm of a softmax of whole rows"


def rewrite(site: Site) -> Edits:
    """Subtract the maximum and the logarithm of the sum from the scores."""
    log = only(find(site.node, Map, lambda node: is_map(node, "log", "log2")), NEED)
    weights, name = log.xs[0], site.name
    while isinstance(weights, Round) or _is_named(site, weights):
        if isinstance(weights, Input):
            name = weights.name
        weights = weights.x if isinstance(weights, Round) else site.definition(name)
    if not is_map(weights, "div"):
        raise MismatchError(NEED)
    found = attention_at(Site(site.program, (name,)))
    if found.core.key != weights.key or found.log != log.fn or found.shifted is None:
        raise MismatchError(NEED)
    total = found.round(apply(log.fn, found.total.sum))
    shifted = found.round(found.shifted)
    new = apply("sub", shifted, total)
    return {site.name: same_format(site.node, replace(site.node, log, new))}


def _is_named(site: Site, node: Node) -> bool:
    return isinstance(node, Input) and not site.program.is_input(node.name)


RULE = Rewrite(
    code="RED259",
    name="log-softmax",
    claim=Change.ROUNDING,
    prose=__doc__,
    graph="""
        x: f32[M, K]
        p: f32 = softmax(x) acc f32 seq
        y: f32 = log(p)
        h: f32 = -1 * log(softmax(x)) acc f32 seq
        e: f32 = log(x * x + 1)
        b: f32 = log2(p)
    """,
    at=("y",),
    sizes={"M": 1, "K": 2},
    rewrite=rewrite,
    examples=(
        breaks(x=[[0, -200]], shows="y[0, 1]: 0xff800000 -> 0xc3480000"),  # -200 in place of -inf
        breaks(x=[[0, -0.5]]),
        holds(at=("h",), x=[[1, 1]]),  # log 2 is rounded once in either form
        rejects(NEED, at=("b",), x=1),
        rejects(NEED, at=("e",), x=1),
    ),
    loses=("domain",),
    title=lambda site: (
        f"`{site.name}` subtracts the logarithm of the sum of weights instead of taking that of "
        "each weight"
    ),
)
