"""Programs that a test writes itself, sites in them, and what a rule does to them."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from lastbit.definitions import Definitions, reference
from lastbit.examples import Outcome, check_example
from lastbit.graph import Graph
from lastbit.interpret.evaluate import results
from lastbit.interpret.exact import ExactDomain, exact_array
from lastbit.interpret.policy import Policy
from lastbit.registry import load_rules
from lastbit.rule import Example, Site, Value
from lastbit.text import parse_program

# The inputs of programs of one line.
HEAD = "x: bf16[2, 4]\nw: f32[4, 3]\ns: f16[2, 1]\n"
# The transforms whose answers are published, by their names there.
_DATA = Path(__file__).parent / "data" / "chapter_oracle.json"
ORACLE = {entry["id"]: entry for entry in json.loads(_DATA.read_text("utf-8"))["entries"]}


def written(text: str, sizes: Mapping[str, int] | None = None) -> Definitions:
    """Return the definitions of a program."""
    program = parse_program(text)
    return Definitions(program.nodes(sizes or {}, reference), program.outputs)


def graph_of(text: str, **sizes: int) -> Graph:
    """Return the graph of a program."""
    return parse_program(text).bind(sizes)


def site_of(
    text: str,
    at: str | tuple[str, ...],
    sizes: Mapping[str, int] | None = None,
    /,
    **parameters: Value,
) -> Site:
    """Return a site of a program."""
    names = (at,) if isinstance(at, str) else at
    return Site(written(text, sizes), names, dict(parameters))


def transformed(code: str, site: Site) -> Definitions:
    """Return a site's program after a rule, whose parameters have defaults."""
    rule = load_rules()[code]
    usual = {p.name: p.default for p in rule.parameters if p.default is not None}
    full = dataclasses.replace(site, parameters={**usual, **site.parameters})
    return site.program.edited(rule.apply(full))


def closed(program: Definitions, *names: str) -> Graph:
    """Return the graph of values, or of a program's results, over its inputs."""
    inputs = [name for name in program.nodes if program.is_input(name)]
    return program.closed(names or program.outputs, inputs)


def outcome_on(
    code: str,
    text: str,
    at: str | tuple[str, ...],
    parameters: Mapping[str, Value] | None = None,
    /,
    **inputs: object,
) -> Outcome:
    """Return what a rule does to a program on inputs, which give its sizes."""
    names = (at,) if isinstance(at, str) else at
    rule = dataclasses.replace(load_rules()[code], graph=text, at=names, sizes={})
    return check_example(rule, Example("breaks", inputs, parameters or {}))


def value_of(
    program: Definitions, name: str, policy: Policy, inputs: Mapping[str, Any]
) -> list[object]:
    """Return the elements of a value, evaluated exactly."""
    graph = closed(program, name)
    given = {node.name: exact_array(list(inputs[node.name]), node.shape) for node in graph.inputs}
    return list(results(graph, ExactDomain(given), policy)[name].array.flat)
