"""Differences of a product that is rounded on one side and exact on the other: contractions."""

from __future__ import annotations

from collections.abc import Iterator

from lastbit.definitions import Definitions
from lastbit.graph import Const, Map, Node, Reduce, Round, native_rounding
from lastbit.patterns import is_map, past_views, replace
from lastbit.rounding import Rounding
from lastbit.rule import Edits, MismatchError, Site
from lastbit.unsafe import Shift, behind, shifts

NO_PAIR = "the value subtracts a rounded product and the same product, not rounded"


def half_rounded(program: Definitions) -> Iterator[tuple[Shift, Map, Rounding]]:
    """Yield differences in exponentials of which one side rounds a product and the other does not.

    The rounded side may be a maximum over it, as in a softmax.
    """
    for shift in shifts(program):
        first, second = shift.difference.xs
        for exact, other in ((first, second), (second, first)):
            product = past_views(exact)
            if is_map(product, "mul"):
                assert isinstance(product, Map)
                rounding = _rounding_of(program, other, product)
                if rounding is not None and not _is_exact(product, rounding):
                    yield shift, product, rounding


def _rounding_of(program: Definitions, node: Node, product: Map) -> Rounding | None:
    """Return how a product is rounded behind names, views and maxima, or None."""
    rounding = None
    while True:
        node = behind(program, node)
        match node:
            case Round(x=x):
                rounding, node = node.rounding, x
            case Reduce(op="max" | "min", x=x):
                node = x
            case _:
                return rounding if node.key == product.key else None


def _is_exact(product: Map, rounding: Rounding) -> bool:
    """Return whether a product is a number of the format: of few digits, or by a power of two."""
    digits = 0
    for x in product.xs:
        if isinstance(x, Const) and not isinstance(x.value, str) and x.value:
            n, d = x.value.as_integer_ratio()
            digits += max(n.bit_length() - _zeros(n), 1) if d & (d - 1) == 0 else 1 << 20
            digits -= _is_power(n) and _is_power(d)
            continue
        native = native_rounding(x)
        digits += 1 << 20 if native is None else native.format.precision
    return digits <= rounding.format.precision


def _zeros(n: int) -> int:
    return (n & -n).bit_length() - 1


def _is_power(n: int) -> bool:
    return abs(n) & (abs(n) - 1) == 0


def rounded_alike(site: Site) -> Edits:
    """Return the site with both sides of its differences rounded.

    Raises:
        MismatchError: it holds no such difference.
    """
    root = site.node
    found = [item for item in half_rounded(site.program) if item[0].holder == site.name]
    if not found:
        raise MismatchError(NO_PAIR)
    for shift, product, rounding in found:
        new = replace(shift.difference, product, Round(product, rounding))
        root = replace(root, shift.difference, new)
    return {site.name: root}
