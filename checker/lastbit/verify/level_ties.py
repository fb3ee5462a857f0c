"""Inputs that put an exact sum beside a midpoint that a wider level of the sum rounds it to.

Where one side rounds a sum to a narrow format at once, and the other to a wider format first, the
two differ by double rounding only: the exact sum lies so near to a midpoint of the narrow format
that the wider one holds just the midpoint, which then goes to the even neighbour. Random inputs
never meet that. With p and P the precisions and h = 2^-p, half an ulp of the narrow format at 1,
the exact sums sought are 1 + h + t, which rounds up and through the wide format down, and
1 + 2h + h - t, which rounds down and through the wide format up, with t <= 2^-P.

Their terms are such that sums rounded at every step go the way of the exact result: what stands
beside 1 comes in pieces that are lost, or carry over, one by one. So the bits differ as well.
"""

from __future__ import annotations

import math
import random
from collections.abc import Iterator, Sequence
from fractions import Fraction

from lastbit.formats import Format
from lastbit.graph import Graph, Input, Reduce, Round, topological
from lastbit.interpret.exact import Objects, exact_array, ordinary
from lastbit.rounding import Rounding
from lastbit.schedule import formats
from lastbit.verify.held import held_in
from lastbit.verify.region import Region
from lastbit.verify.terms import Element, Term, sums_of

FEWEST = 3  # terms of a sum that two formats can round to different bits in this way

Pair = tuple[Format, Format]  # a narrow format and a wider one


def level_ties(region: Region, rng: random.Random, count: int) -> Iterator[dict[str, Objects]]:
    """Yield inputs for sums that are rounded to formats of several precisions.

    Args:
        region: the two graphs.
        rng: draws which inputs.
        count: inputs tried for each pair of formats, in turn for the sums of either graph.
    """
    pairs = _pairs(region)
    if not pairs:
        return
    both = (region.before, region.after)
    sums = dict.fromkeys(terms for graph in both for terms in sums_of(graph))
    targets = [terms for terms in sums if _is_free(terms)]
    inputs = {node.name: node for node in region.inputs}
    for number in range(count * len(pairs) if targets else 0):
        pair, terms = pairs[number % len(pairs)], rng.choice(targets)
        digits = min(_digits(term, inputs) for term in terms)
        pieces = _pieces(pair, digits, len(terms), rng)
        if pieces is None:
            continue
        values = _values(terms, pieces, pair, inputs, rng)
        if values is not None:
            yield values


def _pairs(region: Region) -> list[Pair]:
    """Return the floating-point formats that values are rounded to, in pairs that ties need."""
    found = {fmt.name: fmt for graph in (region.before, region.after) for fmt in _formats_of(graph)}
    known = [found[name] for name in sorted(found)]
    return [(a, b) for a in known for b in known if a.precision + 2 <= b.precision]


def _formats_of(graph: Graph) -> Iterator[Format]:
    for node in topological(graph.results):
        if isinstance(node, Round) and node.rounding.format.kind == "float":
            yield node.rounding.format
        elif isinstance(node, Reduce) and node.acc is not None and node.schedule is not None:
            root = node.acc.format.short
            for name in sorted({root, *formats(node.schedule, root)}):
                level = node.acc.format if name == root else Rounding.of(name).format
                if level.kind == "float":
                    yield level


def _is_free(terms: Sequence[Term]) -> bool:
    """Return whether each term has an element that stands in no other."""
    elements = [element for term in terms for element in term.elements]
    return (
        len(terms) >= FEWEST
        and all(term.elements for term in terms)
        and len(elements) == len({*elements})
    )


def _digits(term: Term, inputs: dict[str, Input]) -> int:
    return inputs[term.elements[0][0]].format.precision


def _pieces(pair: Pair, digits: int, most: int, rng: random.Random) -> list[Fraction] | None:
    """Return terms near 1 whose sum lies beside a midpoint; None where so few cannot.

    Args:
        pair: the formats.
        digits: significant bits that every term may have.
        most: terms that there may be.
        rng: draws them.
    """
    narrow, wide = pair[0].precision, pair[1].precision
    one, half = Fraction(1), Fraction(2) ** -narrow
    down = rng.random() < 0.5  # the exact result is rounded down
    below = wide + rng.choice((0, 0, 1, 4))
    tiny = Fraction(2) ** -below
    base = [one + 2 * half] if down else [one]
    if down and digits < narrow:
        base = [one, 2 * half]
    if most >= len(base) + 3:
        quarter = half / 4
        lost = [half / 2, half / 2, -tiny] if down else [half + quarter, -quarter, tiny]
        if not down and digits < 3 and most >= len(base) + 4:
            lost = [half, quarter, -quarter, tiny]
        return [*base, *lost]
    # Two terms beside 1: half - d and d - t, or half + d and -(d - t).
    least, longest = below - narrow - digits, digits if down else digits - 1
    depths = [k for k in range(max(1, least), longest + 1) if narrow + k < wide]
    if len(base) > 1 or not depths:
        return None
    depth = half / 2 ** rng.choice(depths)
    rest = [half - depth, depth - tiny] if down else [half + depth, tiny - depth]
    return [*base, *rest]


def _values(
    terms: Sequence[Term],
    pieces: Sequence[Fraction],
    pair: Pair,
    inputs: dict[str, Input],
    rng: random.Random,
) -> dict[str, Objects] | None:
    """Return inputs that give the pieces, times one power of two, to terms of a sum.

    Returns:
        None where the formats of the inputs do not hold them on an ordinary run.
    """
    order = list(pieces)
    if rng.random() < 0.7:
        rng.shuffle(order)
    sign = rng.choice((1, -1))
    places = sorted(rng.sample(range(len(terms)), len(pieces)))
    if rng.random() < 0.5:
        places = list(range(len(pieces)))
    low = max(fmt.emin for fmt in pair) - min(map(_exponent, pieces))
    high = min(fmt.emax for fmt in pair) - 2
    for at in places:
        own = [inputs[name].format for name, _ in terms[at].elements]
        low = max(low, sum(fmt.emin for fmt in own) - min(map(_exponent, pieces)))
        high = min(high, sum(fmt.emax - 1 for fmt in own) - 1)
    if low > high:
        return None
    scale = Fraction(2) ** min(max(low, 0), high)
    found: dict[Element, Fraction] = {}
    for term in terms:
        found.update({element: Fraction(i > 0) for i, element in enumerate(term.elements)})
    for at, piece in zip(places, order, strict=True):
        value = sign * scale * piece / terms[at].factor
        for element in terms[at].elements:
            fmt = inputs[element[0]].format
            bounded = min(max(_exponent(value), fmt.emin), fmt.emax - 1)
            found[element] = value / Fraction(2) ** (_exponent(value) - bounded)
            value = Fraction(2) ** (_exponent(value) - bounded)
        if value != 1:
            return None
    out = {}
    for node in inputs.values():
        size = math.prod(node.shape)
        held = [held_in(found.get((node.name, i), Fraction(1)), node.format) for i in range(size)]
        out[node.name] = exact_array(held, node.shape)
        if not ordinary(out[node.name], node.format):
            return None
    return out


def _exponent(value: Fraction) -> int:
    """Return e with 2^e <= |value| < 2^(e + 1)."""
    size = abs(value)
    exponent = size.numerator.bit_length() - size.denominator.bit_length()
    return exponent if size >= Fraction(2) ** exponent else exponent - 1
