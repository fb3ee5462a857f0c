"""Choices along an axis: which element is the largest, the second largest, and so on.

A `Reduce` makes a choice where its op is one of

- `argmax`: the index of the largest element; which of equal ones is not promised,
- `argmax_first`, `argmax_last`: the lowest, or the highest, of the indices of equal elements,

or one of these, or `max`, with a number: `argmax 2` is the index of the second largest element,
`max 2` the second largest element itself. The choices of one op, from the first to the last, are
one order of the axis: with `argmax` an index that was chosen is not chosen again.

NaN counts as larger than every number, and -0 as equal to 0.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cmp_to_key, lru_cache
from typing import Any, Literal

from lastbit.graph import Node, Reduce, Round, View

Ties = Literal["any", "first", "last"]

INDICES: dict[str, Ties] = {"argmax": "any", "argmax_first": "first", "argmax_last": "last"}


@dataclass(frozen=True, slots=True)
class Choice:
    """A choice along an axis.

    Attributes:
        ties: which of equal elements counts as larger; None where the element itself is meant.
        nth: its place in the order from the largest down, from 1.
    """

    ties: Ties | None
    nth: int

    @property
    def op(self) -> str:
        """Return the op of a `Reduce` that makes this choice."""
        word = next((op for op, ties in INDICES.items() if ties == self.ties), "max")
        return word if self.nth == 1 else f"{word} {self.nth}"


@lru_cache(maxsize=256)
def choice_of(op: str) -> Choice | None:
    """Return the choice that an op means; None for a sum, a maximum or a minimum."""
    word, _, nth = op.partition(" ")
    if word in INDICES:
        return Choice(INDICES[word], int(nth or 1))
    return Choice(None, int(nth)) if word == "max" and nth else None


def is_index(op: str) -> bool:
    """Return whether a reduction gives the index of an element."""
    choice = choice_of(op)
    return choice is not None and choice.ties is not None


def is_unordered(op: str) -> bool:
    """Return whether a reduction gives the index of an element, and of equal ones that of any."""
    choice = choice_of(op)
    return choice is not None and choice.ties == "any"


def with_ties(op: str, ties: Ties) -> str:
    """Return the op of the same choice with another rule for equal elements."""
    choice = choice_of(op)
    assert choice is not None
    return Choice(ties, choice.nth).op


def holds_indices(node: Node) -> bool:
    """Return whether a value is a choice of indices: views and roundings of such reductions."""
    match node:
        case View(xs=xs):
            return all(map(holds_indices, xs))
        case Round(x=x):
            return holds_indices(x)
        case Reduce(op=op):
            return is_index(op)
    return False


def ranked(values: Sequence[Any], compare: Callable[[Any, Any], int], ties: Ties) -> list[int]:
    """Return the indices of numbers from the largest down; NaN comes first.

    Args:
        values: the numbers.
        compare: says of two numbers, none of them NaN, whether the first is below (negative),
            equal to (0) or above the second.
        ties: the order of equal elements; `any` is that of the indices.
    """

    def order(i: int, j: int) -> int:
        a, b = values[i], values[j]
        nan_a, nan_b = a != a, b != b
        if nan_a or nan_b:
            return int(nan_b) - int(nan_a)
        return compare(b, a)

    indices = range(len(values) - 1, -1, -1) if ties == "last" else range(len(values))
    return sorted(indices, key=cmp_to_key(order))
