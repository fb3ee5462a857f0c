"""Find squares and their roots, in one statement or through a named and rounded value."""

from __future__ import annotations

from collections.abc import Iterator

from lastbit.graph import Map, Node
from lastbit.patterns import find, is_map, only, unrounded, written_out
from lastbit.rule import Site

NO_ROOT = "the value is the root of one square"
NO_SQUARE = "the value is the square of one root"


def root_of_square(site: Site) -> tuple[Map, Node]:
    """Return the root in a definition, and what was squared.

    Raises:
        MismatchError: the definition holds no root of a square, or several.
    """
    return only(_pairs(site, "sqrt", "mul"), NO_ROOT)


def square_of_root(site: Site) -> tuple[Map, Node]:
    """Return the square in a definition, and that of which the root was taken.

    Raises:
        MismatchError: the definition holds no square of a root, or several.
    """
    return only(_pairs(site, "mul", "sqrt"), NO_SQUARE)


def _pairs(site: Site, outer: str, inner: str) -> Iterator[tuple[Map, Node]]:
    for node in find(site.node, Map, lambda node: is_map(node, outer) and _repeats(node)):
        base = unrounded(written_out(site, node.xs[0]))
        if isinstance(base, Map) and is_map(base, inner) and _repeats(base):
            yield node, base.xs[0]


def _repeats(node: Map) -> bool:
    """Return whether all operands of a node are the same."""
    return len({x.key for x in node.xs}) == 1
