"""The graphs before and after one step of a plan, at sizes of one's own."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import replace
from datetime import date

from lastbit.definitions import Definitions
from lastbit.errors import InputError, Place, Problem, did_you_mean
from lastbit.graph import Graph
from lastbit.plan import Plan, Span, load_plan
from lastbit.rule import Site, Value
from lastbit.verify.bench import Bench


def step_graphs(
    plan: str | Plan, step: str, sizes: Mapping[str, int] | None = None, **parameters: Value
) -> tuple[Graph, Graph]:
    """Return the whole program of a plan before and after a step, to run them.

    Steps in front of it that stay in the program are applied first. Expressions of symbols, here
    and in schedules and parameters, count at the sizes given.

        before, after = step_graphs("plan.toml", "g.split-k", {"M": 1, "K": 4, "N": 1}, n=2)
        run_graph(after, {"x": [1, 2, 3, 4], "w": 1})

    Args:
        plan: a plan, or its file.
        step: the id of a transform.
        sizes: sizes of symbols in place of those of the plan.
        parameters: parameters of the step's rule in place of those of the plan.

    Returns:
        Two graphs with the same results; each value of the program that a graph still computes
        is there under its name.

    Raises:
        InputError: the plan cannot be used, or has no such step, symbol or parameter, or shapes
            do not fit.
        RejectedError: the rule cannot be applied at these sizes, or with these parameters.
    """
    if isinstance(plan, str):
        plan = load_plan(plan, date.today())
    names = [transform.id for transform in plan.transforms]
    _known(plan, "step", [step], names)
    _known(plan, "symbol", sizes or {}, plan.symbols)
    rule = plan.transforms[names.index(step)].rule
    _known(plan, f"parameter of {rule.name}", parameters, [p.name for p in rule.parameters])
    spans = {name: Span(size, size, size) for name, size in (sizes or {}).items()}
    bench = Bench(replace(plan, symbols={**plan.symbols, **spans}))
    number = names.index(step)
    transform = plan.transforms[number]
    old = bench.before(number, bench.true)
    given = {**bench.parameters(transform), **parameters}
    new = old.edited(rule.apply(Site(old, transform.at, given)))
    return _whole(old), _whole(new)


def _known(plan: Plan, what: str, given: Iterable[str], allowed: Collection[str]) -> None:
    problems = [
        Problem(f"unknown {what} {name!r}", did_you_mean(name, allowed), Place(plan.file))
        for name in given
        if name not in allowed
    ]
    if problems:
        raise InputError(problems)


def _whole(program: Definitions) -> Graph:
    inputs = [name for name in program.nodes if program.is_input(name)]
    return program.closed(program.outputs, inputs)
