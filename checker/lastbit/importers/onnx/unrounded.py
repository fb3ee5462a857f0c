"""Whether two programs are the same but for their roundings: a law for regions of any size.

The policy GRID carries out no rounding but those to grids. Two programs that are equal when all
others are taken out agree under it, whatever the inputs, so that they differ by `rounding` at most.
"""

from __future__ import annotations

from collections.abc import Sequence

from lastbit.graph import Graph, Node, Round, topological, with_args
from lastbit.plan_model import Plan


def same_unrounded(plan: Plan) -> bool:
    """Return whether the two programs of a plan are equal without their roundings.

    Raises:
        InputError: a program does not fit together.
    """
    assert plan.after is not None
    sizes = plan.sizes()
    first, second = (_keys(program.bind(sizes)) for program in (plan.program, plan.after))
    return first == second


def _keys(graph: Graph) -> Sequence[bytes]:
    made: dict[bytes, Node] = {}
    for node in topological(graph.results):
        if isinstance(node, Round) and not node.rounding.format.is_grid:
            made[node.key] = made[node.x.key]
        else:
            made[node.key] = with_args(node, made)
    return [made[node.key].key for node in graph.results]
