"""Whether two graphs agree in the field, under a policy."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from lastbit.graph import Graph, Map, View, topological
from lastbit.interpret.evaluate import evaluate
from lastbit.interpret.field import FieldDomain
from lastbit.interpret.field_values import FINITE, UNDEFINED, Residue
from lastbit.interpret.policy import Policy
from lastbit.interpret.residues import FIELDS

COMPARISONS = ("less", "less_equal", "equal", "sign")
SIGNED = ("abs", "select", "sqrt", "rsqrt")
ENOUGH = 40  # elements of each result to be seen where a sign, drawn at random, decides
MOST_DRAWS = 12  # draws after which a comparison without a defined element is given up
PATIENCE = 4  # times as many draws as elements to be seen: of small results some are undefined


@dataclass(frozen=True, slots=True)
class Agreement:
    """What the field says of two graphs under a policy.

    Attributes:
        equal: whether every defined element agrees, in every draw.
        hint: whether the disagreement may be due to a keyed hash that knows too few laws.
        draws: draws made.
        elements: elements compared.
    """

    equal: bool
    hint: bool
    draws: int
    elements: int


def agree(
    before: Graph,
    after: Graph,
    policy: Policy,
    draws: int = 2,
    seed: int = 0,
    tick: Callable[[], None] | None = None,
    trees: bool = False,
) -> Agreement:
    """Compare the results of two graphs in the field, in the order of their outputs.

    Args:
        before: a graph.
        after: a graph with as many outputs, of the same shapes.
        policy: which roundings are carried out.
        draws: draws in which some element of each output must be defined.
        seed: selects the draws.
        tick: called before each node; may raise to stop.
        trees: whether only the trees of sums are in question; signs were seen at other sizes.
    """
    if before.key() == after.key():
        return Agreement(True, False, 0, 0)
    compares = any(
        isinstance(node, Map) and node.fn in COMPARISONS
        for node in topological([*before.results, *after.results])
    )
    signs = not trees and (
        compares
        or any(
            isinstance(node, Map) and node.fn in SIGNED
            for node in topological([*before.results, *after.results])
        )
    )
    least = ENOUGH * max(len(before.outputs), 1) if signs else 1
    draws = max(draws, 3) if signs else draws
    most = PATIENCE * ENOUGH if signs else MOST_DRAWS
    elements = done = 0
    unseen = _joined(before, after)
    for draw in range(most):
        domain = FieldDomain(FIELDS[draw % len(FIELDS)], seed + draw, compares)
        known: dict[bytes, Residue] = {}
        with np.errstate(over="ignore"):
            left = evaluate(before.results, domain, policy, known, tick)
            right = evaluate(after.results, domain, policy, known, tick)
        counts = []
        for x, y in zip(left, right, strict=True):
            same, compared = _same(x, y)
            if not same:
                return Agreement(False, x.hint or y.hint, draw + 1, elements)
            counts.append(compared)
        unseen = {key for key in unseen if _is_undefined(known[key])}
        elements += sum(counts)
        done += all(counts)
        if done >= draws and elements >= least and not unseen:
            return Agreement(True, False, draw + 1, elements)
        if draw + 1 == ENOUGH and not elements:
            break
    return Agreement(False, True, draw + 1, elements)


def _joined(*graphs: Graph) -> set[bytes]:
    """Return the values that are joined to others, such as images to their frames.

    Each must be seen: what a result shows of the others says nothing of it.
    """
    return {
        x.key
        for graph in graphs
        for node in topological(graph.results)
        if isinstance(node, View) and len(node.xs) > 1
        for x in node.xs
    }


def _is_undefined(x: Residue) -> bool:
    """Return whether no element is defined."""
    return x.special is not None and bool(np.all(x.special == UNDEFINED))


def _same(x: Residue, y: Residue) -> tuple[bool, int]:
    """Return whether two tensors agree where both are defined, and on how many elements."""
    none = np.zeros((), np.uint8)
    cx = none if x.special is None else x.special
    cy = none if y.special is None else y.special
    shape = np.broadcast_shapes(np.shape(x.identity), np.shape(y.identity))
    cx, cy = np.broadcast_to(cx, shape), np.broadcast_to(cy, shape)
    defined = (cx != UNDEFINED) & (cy != UNDEFINED)
    if np.any(defined & (cx != cy)):
        return False, 0
    finite = defined & (cx == FINITE)
    compared = int((defined & ~finite).sum()) if defined.all() else 0  # else all that was seen
    decided = False
    for a, b in ((x.p, y.p), (x.q, y.q)):
        if a is not None and b is not None:
            decided = True
            if np.any((np.broadcast_to(a, shape) != np.broadcast_to(b, shape)) & finite):
                return False, 0
    if not decided and finite.any():
        return True, 0
    return True, compared + int(finite.sum())
