"""Programs in their canonical form."""

from collections.abc import Mapping

import numpy as np
from unlimited import Unlimited

from lastbit.graph import Graph
from lastbit.interpret.evaluate import evaluate
from lastbit.interpret.exact import Objects
from lastbit.interpret.policy import Policy
from lastbit.reals import Undecided
from lastbit.text import parse_program
from lastbit.verify.canonicalise import canonical

INPUTS = """
x: bf16[2, 6]
y: bf16[2, 6]
z: bf16[2, 6]
f: f32[2, 6]
i: int8[2, 6]
w: bf16[6, 3]
"""


def graph_of(text: str) -> Graph:
    """Return the graph of a program that reads x, y, z, f, i and w."""
    return parse_program(INPUTS + text).bind({})


def keeps_its_values(graph: Graph, inputs: Mapping[str, Objects]) -> None:
    """Fail where the form of a graph has other values, and exponents have no limits."""
    form = canonical(graph)
    for policy in (Policy.BITS, Policy.GRID, Policy.REAL):
        domain = Unlimited(inputs)
        try:
            before = evaluate(graph.results, domain, policy)
            after = evaluate(form.results, Unlimited(inputs), policy)
        except Undecided:
            continue
        if domain.finite:
            for x, y in zip(before, after, strict=True):
                assert np.all(np.equal(x.array, y.array)), (x.array, y.array)
