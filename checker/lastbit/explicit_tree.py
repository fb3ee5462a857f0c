"""Explicit trees, as revealed by probing; they may be deeper than the call stack."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from lastbit.levels import Level, ScheduleError

Nested = Any  # an element's index, `()` for zero, or a pair of these


@dataclass(frozen=True)
class Tree(Level):
    """An explicit tree, as revealed by probing.

    Build one from nested pairs with `tree_of_pairs`.

    Attributes:
        leaves: the number of elements, each of which occurs once.
        merges: the pairs added, in an order that defines each before its use: -1 is zero, i below
            `leaves` is element i, and `leaves` + j is the result of merge j. The last is the root.
    """

    word: ClassVar[str] = "tree"
    leaves: int
    merges: tuple[tuple[int, int], ...]

    def __post_init__(self) -> None:
        used = sorted(node for pair in self.merges for node in pair if node >= 0)
        defined = all(max(pair) < self.leaves + j for j, pair in enumerate(self.merges))
        last = self.leaves + len(self.merges) - 1
        whole = used == list(range(last)) if self.leaves + len(self.merges) else True
        if not defined or not whole:
            reason = f"it is no tree over elements 0 to {self.leaves - 1}"
            raise ScheduleError("tree", reason, "Use each element once, as in tree(((0, 1), 2)).")

    def _arguments(self) -> list[str]:
        return [_pairs_text(self)]


def _pairs_text(tree: Tree) -> str:
    """Return the nested pairs of a tree as text; trees may be deeper than the call stack."""
    if not tree.merges:
        return "0" if tree.leaves else "()"
    pieces: list[str] = []
    todo: list[int | str] = [tree.leaves + len(tree.merges) - 1]
    while todo:
        node = todo.pop()
        if isinstance(node, str):
            pieces.append(node)
        elif node < tree.leaves:
            pieces.append("()" if node < 0 else str(node))
        else:
            left, right = tree.merges[node - tree.leaves]
            todo += [")", right, ", ", left, "("]
    return "".join(pieces)


def tree_of_pairs(nested: Nested, acc: str | None = None) -> Tree:
    """Return the explicit tree that nested pairs describe.

    Args:
        nested: an element's index, `()` for zero, or a pair of these, to any depth.
        acc: the format of the accumulator, or None to inherit it.

    Raises:
        ScheduleError: something is no pair, or an element is missing or occurs twice.
    """
    elements: list[int] = []
    postorder: list[Any] = []
    todo = [nested]
    while todo:
        node = todo.pop()
        postorder.append(node)
        if type(node) is int and node >= 0:
            elements.append(node)
        elif isinstance(node, (tuple, list)) and len(node) in (0, 2):
            todo += node
        else:
            text = str(node)[:40]
            raise ScheduleError("tree", f"{text!r} is no pair", "Write tree(((0, 1), 2)).")
    merges: list[tuple[int, int]] = []
    done: list[int] = []
    for node in reversed(postorder):
        if type(node) is int:
            done.append(node)
        elif not node:
            done.append(-1)
        else:
            right, left = done.pop(), done.pop()
            merges.append((left, right))
            done.append(len(elements) + len(merges) - 1)
    return Tree(len(elements), tuple(merges), acc=acc)
