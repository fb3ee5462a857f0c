"""A summation tree of no known form, written down: all of it where it is small, else its top."""

from __future__ import annotations

from typing import Final

from lastbit.order import OrderTree

ALL: Final = 16  # terms of a tree that is written whole
LEVELS: Final = 2  # of a larger one
KIDS: Final = 4  # of a step that are shown


def in_words(tree: OrderTree) -> str:
    """Return a tree as text: `(0 + 1) + (2 + 3)`, and `0..15` for the sum of these terms."""
    shape = tree.canonical
    whole = shape.leaves <= ALL
    root = shape.leaves + len(shape) - 1
    text = _written(shape, root, ALL if whole else LEVELS, whole)
    if whole:
        return f"{text} of its terms by number"
    return f"a tree {tree.depth:,} steps deep, at its root {text} of its terms by number"


def _written(tree: OrderTree, node: int, levels: int, whole: bool) -> str:
    if node < tree.leaves:
        return str(node)
    if not levels:
        return _span(tree, node)
    kids = tree.steps[node - tree.leaves]
    shown = kids if whole or len(kids) <= KIDS else kids[:KIDS]
    parts = []
    for kid in shown:
        text = _written(tree, kid, levels - 1, whole)
        parts.append(f"({text})" if " " in text else text)
    if len(shown) < len(kids):
        parts.append(f"{len(kids) - len(shown)} more")
    return " + ".join(parts)


def _span(tree: OrderTree, node: int) -> str:
    """Return the terms under a step in a few characters."""
    terms = tree.elements(node)
    first, last, count = terms[0], terms[-1], len(terms)
    if last - first == count - 1:
        return f"{first}..{last}"
    step = terms[1] - first
    if terms == list(range(first, last + 1, step)):
        return f"{first}..{last} by {step}"
    return f"{count} terms in {first}..{last}"
