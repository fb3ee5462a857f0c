"""A public case: a plan, its verdicts, and what its programs compute."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from lastbit.formats import Exact
from lastbit.interpret.array import ArrayDomain, values_of
from lastbit.interpret.evaluate import results
from lastbit.interpret.policy import Policy
from lastbit.result import Result, Step
from lastbit.run import run_graph
from lastbit.steps import step_graphs
from lastbit.text import parse_program

INF, NAN = math.inf, math.nan


@dataclass(frozen=True)
class Case:
    """A plan and what lint says of it.

    Attributes:
        path: the plan.
        result: of `lastbit lint`.
    """

    path: Path
    result: Result

    @property
    def step(self) -> Step:
        """Return the only step."""
        (step,) = self.result.steps
        return step

    def hazards(self) -> set[tuple[str, str]]:
        """Return the code and the value of each finding about the graph as it stands."""
        return {
            (finding.code, finding.message.split("`")[1])
            for finding in self.result.findings
            if finding.step is None
        }

    def numbers(
        self, output: str, inputs: dict[str, object], step: str | None = None, **sizes: int
    ) -> tuple[list[float], list[float]]:
        """Return a value before and after a step, element by element, as it is computed exactly."""
        before, after = self.exact(output, inputs, step, **sizes)
        return [float(x) for x in before], [float(x) for x in after]

    def after(self, output: str, inputs: dict[str, object], **sizes: int) -> list[float]:
        """Return a value after the step alone, where it has no one number before."""
        _, graph = step_graphs(str(self.path), self.step.id, sizes)
        return [float(x) for x in run_graph(graph, inputs, [output])[output].flat]

    def exact(
        self, output: str, inputs: dict[str, object], step: str | None = None, **sizes: int
    ) -> tuple[list[Exact], list[Exact]]:
        """Return a value before and after a step, element by element."""
        graphs = step_graphs(str(self.path), step or self.result.steps[0].id, sizes)
        found = [run_graph(graph, inputs, [output])[output] for graph in graphs]
        return list(found[0].flat), list(found[1].flat)


Lint = Callable[..., Case]


def transform(rule: str, *at: str, **parameters: object) -> str:
    """Return the lines of a transform of a plan."""
    names = ", ".join(f'"{name}"' for name in at)
    given = "".join(
        f"\n{name} = {value if isinstance(value, int) else repr(value)}"
        for name, value in parameters.items()
    )
    return f'rule = "{rule}"\nat = [{names}]{given}'


def kinds(step: Step) -> set[tuple[str, str]]:
    """Return what misbehaves on one side only, and on which."""
    return {(entry.kind, entry.side) for entry in step.domain}


def program(text: str, **inputs: object) -> dict[str, list[float]]:
    """Return every value of a program with fixed sizes, as it is computed exactly."""
    graph = parse_program(text).bind({})
    names = [name for name in graph.values if not any(name == i.name for i in graph.inputs)]
    return {name: [float(x) for x in v.flat] for name, v in run_graph(graph, inputs, names).items()}


def quickly(text: str, inputs: dict[str, np.ndarray], **sizes: int) -> dict[str, np.ndarray]:
    """Return the results of a program on arrays."""
    graph = parse_program(text).bind(sizes)
    found = results(graph, ArrayDomain(inputs), Policy.BITS)
    return {name: values_of(value) for name, value in found.items()}


def same(found: list[float], want: list[float]) -> bool:
    """Return whether numbers are equal; NaN is NaN."""
    return np.array_equal(np.array(found), np.array(want), equal_nan=True)
