"""Set up a rule on its own graph, with the sizes and parameters of an example."""

from __future__ import annotations

from collections.abc import Sequence

from lastbit.definitions import Definitions, reference
from lastbit.rule import Example, Rewrite, Site
from lastbit.text import parse_program


def staged(rule: Rewrite, example: Example) -> Site:
    """Return the site of an example, in the definitions of the rule's graph."""
    program = parse_program(rule.graph)
    nodes = program.nodes(sizes_of(rule, example), reference)
    defaults = {p.name: p.default for p in rule.parameters if p.default is not None}
    parameters = {**defaults, **example.parameters}
    return Site(Definitions(nodes, program.outputs), example_site(rule, example), parameters)


def example_site(rule: Rewrite, example: Example) -> tuple[str, ...]:
    """Return the site of an example; each value that a hazard finds is a site of its own."""
    return example.at or (rule.at if rule.finds is None else rule.at[:1])


def sizes_of(rule: Rewrite, example: Example) -> dict[str, int]:
    """Return the sizes of an example: those of its inputs, else those of the rule."""
    sizes = dict(rule.sizes)
    for statement in parse_program(rule.graph).statements:
        shape = nesting(example.inputs.get(statement.name))
        if statement.expr is None and statement.dims and len(shape) == len(statement.dims):
            for dim, size in zip(statement.dims, shape, strict=True):
                sizes |= {str(dim): size} if str(dim) in dim.symbols else {}
    return sizes


def nesting(value: object) -> tuple[int, ...]:
    """Return the shape of nested sequences of numbers; () for a number."""
    if isinstance(value, Sequence) and not isinstance(value, str):
        return (len(value), *(nesting(value[0]) if value else ()))
    return ()
