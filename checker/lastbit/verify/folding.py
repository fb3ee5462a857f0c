"""Constants in place of what a program computes from constants alone.

Importers read what a compiler computed ahead of time as a literal: log(4096) rounded to binary32.
With its roundings carried out the program's own value is that number, so the bits are the same.
Only under the policy BITS: without roundings the one is a real number and the other is not.
"""

from __future__ import annotations

from fractions import Fraction
from math import prod

from lastbit.errors import LastbitError
from lastbit.graph import Const, Graph, Input, Node, Round, topological, with_args
from lastbit.interpret.evaluate import evaluate
from lastbit.interpret.exact import ExactDomain
from lastbit.interpret.policy import Policy
from lastbit.rounding import Mode, Undecided

MOST_ELEMENTS = 256  # of a constant that is computed


def folded(graph: Graph) -> Graph:
    """Return a graph with the same bits, in which rounded constants are written as numbers."""
    new: dict[bytes, Node] = {}
    varying: set[bytes] = set()
    for node in topological(graph.values.values()):
        out = with_args(node, new)
        if isinstance(node, Input) or any(arg.key in varying for arg in node.args):
            varying.add(node.key)
        elif isinstance(out, Round) and out.rounding.mode != Mode.STOCHASTIC:
            out = _computed(out) or out
        new[node.key] = out
    return Graph({name: new[node.key] for name, node in graph.values.items()}, graph.outputs)


def _computed(node: Round) -> Const | None:
    """Return the number that every element of a constant is, or None."""
    if not 0 < prod(node.shape) <= MOST_ELEMENTS:
        return None
    try:
        (value,) = evaluate((node,), ExactDomain({}), Policy.BITS)
    except (LastbitError, Undecided, ZeroDivisionError, OverflowError):
        return None
    first, *rest = value.array.flat
    same = isinstance(first, Fraction) and all(other == first for other in rest)
    return Const(first, shape=node.shape) if same else None
