"""Give the sizes of a region symbols, so that it can be judged at small ones.

A model states its sizes as numbers. In a region the larger ones become symbols, each its own or a
multiple of a smaller one, where the region still fits together at other sizes.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

from lastbit.errors import LastbitError
from lastbit.expression import parse_expression
from lastbit.graph import Graph
from lastbit.plan_model import Plan, Span
from lastbit.statement import Statement

LEAST = 8  # smaller sizes stay numbers

_WORD = re.compile(r"[A-Za-z_]\w*")
_NUMBER = re.compile(r"\b\d+\b")
_SIZED = {"reshape": 1, "broadcast": 1, "size": 0}  # the argument from which on there are sizes


def shrinkable(
    plan: Plan, symbols: Mapping[str, Span], sizes: Mapping[str, int], batch: str | None
) -> Plan:
    """Return a plan with symbols for its larger sizes, as far as it fits together at others.

    Args:
        plan: two programs whose inputs have numbers as sizes.
        symbols: the symbols that occur in their expressions.
        sizes: the numbers that stand for these symbols in the sizes of inputs.
        batch: the symbol that counts rows, or None.
    """
    names = {size: name for name, size in sizes.items()}
    found = sorted({n for st in _all(plan) for n in _numbers(st)} - set(names))
    large = [n for n in found if n >= LEAST]

    def written(texts: Mapping[int, str]) -> Plan:
        made = _with_symbols(plan, {**{n: str(t) for n, t in names.items()}, **texts})
        spans = dict(symbols)
        for text in texts.values():
            word = _symbol_of(text)
            size = int(word.rpartition("_")[2])
            spans[word] = Span(size, size, size)
        used = {s for st in _all(made) for s in _symbols(st, spans)}
        return replace(
            made,
            symbols={name: spans[name] for name in spans if name in used},
            batch=batch if batch in used else None,
        )

    for texts in _choices(large):
        if _fits(made := written(texts)):
            return made
    # A size that is the product of smaller ones, 8 of 2 and 4, is fixed by them; others are free.
    free: dict[int, str] = {}
    for n in large:
        if _fits(written({**free, n: f"size_{n}"})):
            free[n] = f"size_{n}"
    made = written(free)
    return made if _fits(made) else replace(plan, symbols={})


def _choices(numbers: Sequence[int]) -> Iterator[dict[int, str]]:
    """Yield ways to write sizes: each a symbol, then multiples of smaller ones."""
    yield {n: f"size_{n}" for n in numbers}
    related: dict[int, str] = {}
    for n in numbers:
        base = next((b for b in reversed(numbers) if b < n and n % b == 0), None)
        if base is None:
            related[n] = f"size_{n}"
        else:
            related[n] = f"{n // base} * {related[base]}"
    yield {n: _multiple(text) for n, text in related.items()}


def _multiple(text: str) -> str:
    *factors, word = text.split(" * ")
    product = 1
    for factor in factors:
        product *= int(factor)
    return word if product == 1 else f"{product} * {word}"


def _symbol_of(text: str) -> str:
    return text.rpartition(" * ")[2]


def _all(plan: Plan) -> Iterable[Statement]:
    assert plan.after is not None
    return (*plan.program.statements, *plan.after.statements)


def _numbers(st: Statement) -> Iterator[int]:
    for dim in st.dims or ():
        yield from (int(n) for n in _NUMBER.findall(dim.text))
    for start, end in _size_places(st.expr or ""):
        yield from (int(n) for n in _NUMBER.findall((st.expr or "")[start:end]))


def _symbols(st: Statement, known: Iterable[str]) -> set[str]:
    text = (st.expr or "") + " ".join(dim.text for dim in st.dims or ())
    return set(_WORD.findall(text)).intersection(known)


def _with_symbols(plan: Plan, texts: Mapping[int, str]) -> Plan:
    def text(size: str) -> str:
        return _NUMBER.sub(
            lambda m: f"({t})" if " " in (t := texts.get(int(m[0]), m[0])) else t, size
        )

    def written(st: Statement) -> Statement:
        dims, expr = st.dims, st.expr
        if dims is not None:
            dims = tuple(parse_expression(text(dim.text)) for dim in dims)
        if expr is not None:
            for start, end in sorted(_size_places(expr), reverse=True):
                expr = f"{expr[:start]}{text(expr[start:end])}{expr[end:]}"
        return replace(st, dims=dims, expr=expr)

    assert plan.after is not None
    programs = [
        replace(p, statements=tuple(map(written, p.statements))) for p in (plan.program, plan.after)
    ]
    return replace(plan, program=programs[0], after=programs[1])


def _size_places(expr: str) -> list[tuple[int, int]]:
    """Return where an expression of the text form has sizes: start and end of each."""
    found: list[tuple[int, int]] = []
    if not any(f"{word}(" in expr for word in _SIZED) and "[" not in expr:
        return found
    for node in ast.walk(ast.parse(expr, mode="eval")):
        parts: list[ast.expr | None] = []
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
            if node.func.id in _SIZED:
                parts += node.args[_SIZED[node.func.id] :]
        elif isinstance(node, ast.Slice):
            parts += [node.lower, node.upper]
        for part in parts:
            if part is not None:
                assert part.end_col_offset is not None
                found.append((part.col_offset, part.end_col_offset))
    return found


def _fits(plan: Plan) -> bool:
    """Return whether both programs fit together at other sizes, and give equal shapes."""
    assert plan.after is not None
    for offset in (0, 3):
        sizes = {
            name: 12 + 5 * i + offset if span.fixed else min(max(7 + i, span.low), span.high)
            for i, (name, span) in enumerate(plan.symbols.items())
        }
        try:
            graphs = [program.bind(sizes) for program in (plan.program, plan.after)]
        except LastbitError:
            return False
        if _shapes(graphs[0]) != _shapes(graphs[1]):
            return False
    return True


def _shapes(graph: Graph) -> list[tuple[int, ...]]:
    return [graph.values[name].shape for name in graph.outputs]
