"""Hazards: what is unsafe in the graphs of a plan as they stand, before any transform."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from fractions import Fraction
from typing import TYPE_CHECKING

from lastbit.definitions import Definitions, reference
from lastbit.formats import format_of
from lastbit.plan_model import Allow, DataFile, Distribution, Plan
from lastbit.records import Location
from lastbit.registry import blame, load_rules
from lastbit.result import Finding
from lastbit.rule import Danger, Rewrite, Site, Standing
from lastbit.statement import Statement
from lastbit.syntax import OVERFLOW_WORDS, syntax_tree
from lastbit.tail import split_tail
from lastbit.text import Program, parse_program

if TYPE_CHECKING:
    from lastbit.verify.bench import Bench

Inputs = Mapping[str, Distribution | DataFile]
POLICIES = frozenset(OVERFLOW_WORDS)


def dangers(plan: Plan, bench: Bench | None = None) -> list[Finding]:
    """Return a finding for each hazard in the graphs of a plan, at the plan's sizes.

    The second graph of a plan adds what the first does not have.

    Args:
        plan: the plan.
        bench: the plan's program at its sizes, if there is one already.
    """
    hazards = [rule for rule in load_rules().values() if rule.finds]
    if bench is None:
        from lastbit.verify.bench import Bench

        bench = Bench(plan)
    before, after = bench.before(0, bench.true), bench.other(bench.true)
    made = {name for model in plan.imports for name in model.inputs}  # masks and the like
    given = {name: drawn for name, drawn in plan.inputs.items() if name not in made}
    first = standing(plan.program, before, given)
    findings = []
    seen = set()
    for rule, danger in found(first, hazards):
        seen.add((rule.code, danger.at))
        findings.append(_finding(plan, plan.program, first, rule, danger))
    if plan.after is not None and after is not None:
        second = standing(plan.after, after, given, before)
        for rule, danger in found(second, hazards):
            if (rule.code, danger.at) not in seen:
                findings.append(_finding(plan, plan.after, second, rule, danger))
    return findings


def found(standing: Standing, hazards: list[Rewrite]) -> Iterator[tuple[Rewrite, Danger]]:
    """Yield the dangers of a program, hazard by hazard."""
    for rule in hazards:
        try:
            dangers = list(rule.finds(standing)) if rule.finds else []
        except Exception as error:  # whatever a rule of somebody else raises
            blame(rule, error, "finds dangers")
            raise
        yield from ((rule, danger) for danger in dangers)


def standing(
    program: Program,
    definitions: Definitions,
    inputs: Inputs | None = None,
    before: Definitions | None = None,
) -> Standing:
    """Return a program as it stands.

    Args:
        program: its text, parsed.
        definitions: the program at fixed sizes.
        inputs: what is known of its values.
        before: the program before a change, where this is the one after it.
    """
    known = {n: i for n, i in (inputs or {}).items() if isinstance(i, Distribution)}
    limits = {name: _limits(given) for name, given in known.items()}
    return Standing(
        definitions,
        {name: pair for name, pair in limits.items() if pair is not None},
        frozenset(st.name for st in program.statements if _states_overflow(st)),
        {name: _rms(given) for name, given in known.items()},
        before,
    )


def standing_of(rule: Rewrite) -> Standing:
    """Return the graph of a rule as it stands, at the rule's sizes."""
    program = parse_program(rule.graph)
    nodes = program.nodes(rule.sizes, reference)
    return standing(program, Definitions(nodes, program.outputs))


def _finding(
    plan: Plan, program: Program, standing: Standing, rule: Rewrite, danger: Danger
) -> Finding:
    names = ", ".join(f"`{name}`" for name in danger.at)
    message = f"{rule.name} at {names}: {danger.message}"
    if rule.title is not None:
        defaults = {p.name: p.default for p in rule.parameters if p.default is not None}
        site = Site(standing.program, danger.at, defaults)
        try:
            message += f"; remedy: {rule.title(site)}"
        except Exception as error:  # whatever a rule of somebody else raises
            blame(rule, error, "says what its remedy does")
            raise
    severity = _severity(plan, danger)
    allow = _allowed(plan, rule, danger)
    if allow is not None:
        severity, message = "note", f"{message}; allowed: {allow.reason}"
    place = program.place(danger.at[0])
    return Finding(
        rule.code, severity, message, Location(place.file or plan.file, place.line or None)
    )


def _severity(plan: Plan, danger: Danger) -> str:
    """Return what the plan makes of a hazard at a place: a value's budget goes before its own."""
    budgets = [plan.node_budgets[name] for name in danger.at if name in plan.node_budgets]
    budgets += [] if plan.budget is None else [plan.budget]
    return next((budget.hazards for budget in budgets if budget.hazards), "warning")


def _allowed(plan: Plan, rule: Rewrite, danger: Danger) -> Allow | None:
    return next((a for a in plan.allows if a.covers(rule.code, danger.at)), None)


def _limits(given: Distribution) -> tuple[Fraction, Fraction] | None:
    """Return the least and the greatest value of a distribution, where it has them."""
    numbers = given.parameters
    own = None if given.kind == "normal" else (numbers[0], numbers[-1])
    if own is None or given.range is None:
        return own or given.range
    low, high = given.range
    return min(max(own[0], low), high), max(min(own[1], high), low)


def _rms(given: Distribution) -> float:
    """Return the root mean square of a distribution, its range aside."""
    a, b = (float(number) for number in (given.parameters[0], given.parameters[-1]))
    match given.kind:
        case "normal":
            square = a * a + b * b
        case "integers":
            square = ((a + b) / 2) ** 2 + ((b - a + 1) ** 2 - 1) / 12
        case _:
            square = (a * a + a * b + b * b) / 3
    return float(square**0.5)


def _states_overflow(statement: Statement) -> bool:
    """Return whether a statement names an overflow policy for each narrow format it rounds to."""
    if statement.expr is None:
        return False
    if not statement.place.source:
        return True  # it is imported: the library names the policy
    source = statement.place.source.split("#", 1)[0]
    _, tail = split_tail(source)
    last = statement.rounding is None or bool(POLICIES & set(tail.split()))
    if "round" not in statement.expr:
        return last
    for node in ast.walk(syntax_tree(statement.expr)):
        if isinstance(node, ast.Call) and getattr(node.func, "id", "") == "round":
            words = [arg.id for arg in node.args[1:] if isinstance(arg, ast.Name)]
            if words and format_of(words[0]).is_grid and not POLICIES & set(words):
                return False
    return last or (statement.rounding is not None and not statement.rounding.format.is_grid)
