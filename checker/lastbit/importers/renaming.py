"""Give the values of an imported model other names."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import TypeVar

from lastbit.importers.imported import Imported, Opaque
from lastbit.statement import Statement

WORD = re.compile(r"(?<!')\b[A-Za-z_]\w*\b(?!\(|=[^=])")  # a value, in the text of an expression

_T = TypeVar("_T")


def words_of(expr: str) -> list[str]:
    """Return the names in an expression of the text form, each once."""
    return list(dict.fromkeys(WORD.findall(expr)))


def substituted(text: str, names: Mapping[str, str]) -> str:
    """Return an expression in other names; those that are not given stay."""
    return WORD.sub(lambda match: names.get(match[0], match[0]), text)


def renamed(model: Imported, names: Mapping[str, str], first: Iterable[str] = ()) -> Imported:
    """Return a model whose values have other names.

    Args:
        model: the model.
        names: the new name of each value; values that are not given keep theirs.
        first: new names of values that are results of its program, before the others.
    """

    def moved(table: Mapping[str, _T]) -> dict[str, _T]:
        return {names.get(name, name): held for name, held in table.items()}

    def every(given: Iterable[str]) -> tuple[str, ...]:
        return tuple(names.get(name, name) for name in given)

    program = model.program
    outputs = tuple(dict.fromkeys((*first, *every(program.outputs))))
    by_name: dict[str, Statement] = {}
    for st in program.statements:  # what has one name now is one value
        by_name.setdefault(names.get(st.name, st.name), _statement(st, names))
    statements = tuple(by_name.values())
    return replace(
        model,
        program=replace(program, statements=statements, outputs=outputs),
        inputs=moved(model.inputs),
        weights=moved(model.weights),
        contents=moved(model.contents),
        results=every(model.results),
        origins=moved(model.origins),
        shapes=moved(model.shapes),
        opaque=tuple(_opaque(one, names) for one in model.opaque),
    )


def _statement(st: Statement, names: Mapping[str, str]) -> Statement:
    expr = None if st.expr is None else substituted(st.expr, names)
    return replace(st, name=names.get(st.name, st.name), expr=expr)


def _opaque(one: Opaque, names: Mapping[str, str]) -> Opaque:
    reads, gives = (tuple(names.get(n, n) for n in group) for group in (one.reads, one.gives))
    return replace(one, reads=reads, gives=gives)
