"""Trees as text: a drawing for small ones, and sets of elements in few words."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from lastbit.order.tree import OrderTree, runs

DRAWN = 64  # elements of the largest tree that is drawn unasked
LISTED = 6


def elements_text(elements: Sequence[int]) -> str:
    """Write a set of elements, sorted: `3`, `0-7`, `0, 8 ... 120 (16 elements)`."""
    if len(elements) == 1:
        return str(elements[0])
    pieces = list(runs(elements))
    if len(pieces) == 1:
        return f"{elements[0]}-{elements[-1]}"
    steps = {b - a for a, b in pairwise(elements)}
    if len(steps) == 1 and len(elements) > 3:
        count = len(elements)
        return f"{elements[0]}, {elements[1]} ... {elements[-1]} ({count} elements)"
    texts = [str(a) if a == b else f"{a}-{b}" for a, b in pieces]
    if len(texts) <= LISTED:
        return ", ".join(texts)
    shown = ", ".join(texts[: LISTED - 1])
    return f"{shown} ... {texts[-1]} ({len(elements)} elements)"


def draw(tree: OrderTree) -> str:
    """Draw a tree: a line for each step; what is added one after the other shares a line."""
    form = tree.canonical
    if not len(form):
        return "0\n"
    lines: list[str] = []
    todo: list[tuple[int, str, str]] = [(form.leaves + len(form) - 1, "", "")]
    while todo:
        node, first, rest = todo.pop()
        if node < form.leaves:
            lines.append(f"{first}{node}" if node >= 0 else first)
            continue
        chain = _chain(form, node)
        if chain:
            lines.append(f"{first}{_chain_text(chain)}, left to right")
            continue
        kids = form.steps[node - form.leaves]
        lines.append(f"{first}+" if len(kids) == 2 else f"{first}+ one step of {len(kids)}")
        elements = [kid for kid in kids if kid < form.leaves]
        grouped = len(kids) > 2 and len(elements) > 1
        below: list[int | str] = [kid for kid in kids if not grouped or kid >= form.leaves]
        below += [elements_text(elements)] if grouped else []
        for i, kid in reversed(list(enumerate(below))):
            last = i == len(below) - 1
            head, tail = ("└─ ", "   ") if last else ("├─ ", "│  ")
            if isinstance(kid, str):
                todo.append((-1, f"{rest}{head}{kid}", ""))
            else:
                todo.append((kid, rest + head, rest + tail))
    return "".join(f"{line}\n" for line in lines)


def _chain(form: OrderTree, node: int) -> list[int]:
    """Return three elements or more that a step adds one after the other, else nothing."""
    found: list[int] = []
    while node >= form.leaves:
        kids = form.steps[node - form.leaves]
        leaves = [kid for kid in kids if kid < form.leaves]
        if len(kids) != 2 or not leaves:
            return []
        if len(leaves) == 2:
            found += [leaves[1], leaves[0]]
            break
        found.append(leaves[0])
        node = next(kid for kid in kids if kid >= form.leaves)
    found.reverse()
    return found if len(found) > 2 else []


def _chain_text(chain: Sequence[int]) -> str:
    steps = {b - a for a, b in pairwise(chain)}
    if len(steps) == 1 and len(chain) > 4:
        return f"{chain[0]} + {chain[1]} + ... + {chain[-1]}"
    return " + ".join(str(element) for element in chain)


def difference_text(
    mine: Sequence[Sequence[int]], its: Sequence[Sequence[int]], names: tuple[str, str]
) -> str:
    """Say in words where two trees first differ, given what each adds there."""
    if not mine:
        return f"{names[0]} and {names[1]} add in the same order."
    texts = [_added(sets) for sets in (mine, its)]
    return f"{names[0]} adds {texts[0]}; {names[1]} adds {texts[1]}."


def _added(sets: Sequence[Sequence[int]]) -> str:
    singles = sorted(group[0] for group in sets if len(group) == 1)
    texts = [f"({elements_text(group)})" for group in sets if len(group) > 1]
    if len(sets) > 2:
        texts += [elements_text(singles)] if singles else []
        return f"{' and '.join(texts)} in one step"
    texts += [str(single) for single in singles]
    return " and ".join(texts)
