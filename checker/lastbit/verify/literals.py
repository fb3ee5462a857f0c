"""Treat sizes that a plan writes as numbers like symbols, so that they shrink as well."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace

from lastbit.expression import parse_expression
from lastbit.plan_model import Plan, Span
from lastbit.text import Program

LEAST = 32  # sizes below are small enough as they are


def with_size_symbols(plan: Plan) -> Plan:
    """Return a plan whose literal sizes are symbols of one size each.

    A number that an expression mentions too (a slice, a reshape) stays a number: the two would
    no longer fit.
    """
    programs = [plan.program] if plan.after is None else [plan.program, plan.after]
    mentioned = {
        int(number)
        for program in programs
        for st in program.statements
        for number in re.findall(r"\b\d+\b", st.expr or "")
    }
    names = {}
    for size in sorted({size for program in programs for size in _literals(program)}):
        if size >= LEAST and size not in mentioned:
            name = f"size_{size}"
            while name in plan.symbols:
                name += "_"
            names[size] = name
    if not names:
        return plan
    symbols = {**plan.symbols, **{name: Span(size, size, size) for size, name in names.items()}}
    return replace(
        plan,
        program=_named(plan.program, names),
        after=None if plan.after is None else _named(plan.after, names),
        symbols=symbols,
    )


def _literals(program: Program) -> Iterator[int]:
    for st in program.statements:
        for dim in st.dims or ():
            if not dim.symbols:
                yield dim.evaluate({})


def _named(program: Program, names: dict[int, str]) -> Program:
    statements = []
    for st in program.statements:
        dims = st.dims
        if dims is not None:
            dims = tuple(
                dim
                if dim.symbols or dim.evaluate({}) not in names
                else parse_expression(names[dim.evaluate({})])
                for dim in dims
            )
        statements.append(replace(st, dims=dims))
    return Program(tuple(statements), program.outputs)
