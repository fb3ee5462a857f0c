"""A small plan, or a program as it stands: the hazards in it, and their remedies."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import date
from fractions import Fraction
from pathlib import Path

from sites import closed, written

from lastbit.graph import Graph
from lastbit.hazards import standing
from lastbit.lint import lint_plans
from lastbit.plan_model import DataFile, Distribution
from lastbit.registry import find_rule
from lastbit.result import Result
from lastbit.rule import Site
from lastbit.text import parse_program

TODAY = date(2026, 11, 29)
SCALED = "x: bf16[M, K]\ns: f32 = amax(x, axis=-1) / 448\nq: e4m3fn = x / s saturate\n"


def plan(folder: Path, text: str, rest: str = "") -> str:
    """Write a plan of a graph at M = 8 and K = 64; return its path."""
    path = folder / "plan.toml"
    head = "schema = 1\n[graph]\nsymbols = { M = 8, K = 64 }\ntext = '''\n"
    path.write_text(f"{head}{text.strip()}\n'''\n{rest}", encoding="utf-8")
    return str(path)


def lint(folder: Path, text: str, rest: str = "") -> Result:
    """Return the verdict on a plan of a graph."""
    return lint_plans([plan(folder, text, rest)], today=TODAY)


def codes(result: Result) -> list[tuple[str, int | None, str]]:
    """Return code, line and severity of each finding."""
    return [(f.code, f.location.line, f.severity) for f in result.findings]


def found_in(
    code: str,
    text: str,
    sizes: Mapping[str, int] | None = None,
    inputs: Mapping[str, Distribution | DataFile] | None = None,
) -> dict[str, str]:
    """Return what a hazard finds in a graph: its message by the name of the value."""
    rule = find_rule(code)
    assert rule.finds is not None
    stands = standing(parse_program(text), written(text, sizes), inputs)
    return {danger.at[0]: danger.message for danger in rule.finds(stands)}


def remedied(code: str, text: str, *names: str) -> tuple[Graph, Graph]:
    """Return a graph, and the same with the remedy of a hazard at some values."""
    before = after = written(text)
    for name in names:
        after = after.edited(find_rule(code).apply(Site(after, (name,))))
    return closed(before), closed(after)


def declared(low: float, high: float, kind: str = "uniform") -> Distribution:
    """Return a range that a plan declares for an input."""
    return Distribution(kind, (Fraction(low), Fraction(high)))
