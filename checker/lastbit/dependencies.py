"""Which values a statement reads, and an order in which each reads only earlier ones."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping, Set

from lastbit.errors import Problem, did_you_mean
from lastbit.ops import COMPOSITES, OPERATORS, leaf_constant
from lastbit.statement import Statement
from lastbit.syntax import syntax_tree


def nearest(name: str, names: Set[str]) -> str:
    """Return a remedy for a name that is not defined; nothing where there are no names."""
    return did_you_mean(name, names) if names else ""


def uses(st: Statement, names: Set[str], problems: list[Problem]) -> Iterator[str]:
    """Yield the values that a statement reads.

    Args:
        st: the statement.
        names: all names that the text defines.
        problems: names and operators that do not exist are added here.
    """
    if st.expr is None:
        return
    skip: set[int] = set()
    for node in ast.walk(syntax_tree(st.expr)):
        if id(node) in skip:
            continue
        if isinstance(node, ast.Call):
            name = ast.get_source_segment(st.expr, node.func) or ""
            if name not in OPERATORS and name != "opaque":
                remedy = did_you_mean(name, OPERATORS)
                problems.append(st.problem(f"unknown operator {name!r}", remedy, node.col_offset))
            skip |= {id(node.func), *_inner(_words(name, node))}
        elif isinstance(node, ast.Subscript):
            skip |= _inner([node.slice])
        elif isinstance(node, ast.Name) and leaf_constant(node.id) is None:
            if node.id in names:
                yield node.id
            else:
                message = f"`{node.id}` is not defined"
                problems.append(st.problem(message, nearest(node.id, names), node.col_offset))


def _words(name: str, call: ast.Call) -> list[ast.expr]:
    """Return the arguments of a call that are no values: integers, and words of a rounding."""
    words = call.args[1:] if name == "round" else []
    if name in COMPOSITES and COMPOSITES[name].integers:
        words = call.args[COMPOSITES[name].arity or 0 :]
    return [*words, *(keyword.value for keyword in call.keywords)]


def _inner(trees: list[ast.expr]) -> set[int]:
    return {id(node) for tree in trees for node in ast.walk(tree)}


def ordered(
    statements: Mapping[str, Statement],
    used: Mapping[str, tuple[str, ...]],
    problems: list[Problem],
) -> list[Statement]:
    """Return the statements so that each reads only earlier ones.

    Args:
        statements: by name, in the order of the text, which is kept where it can be.
        used: the names that each reads.
        problems: cycles are added here.
    """
    done: dict[str, Statement] = {}
    for root in statements:
        path = {} if root in done else {root: iter(used[root])}
        while path:
            name = next(reversed(path))
            step = next((u for u in path[name] if u in statements and u not in done), None)
            if step is None:
                del path[name]
                done[name] = statements[name]
            elif step in path:
                names = [*path, step]
                problems.append(_cycle(statements[name], names[names.index(step) :]))
            else:
                path[step] = iter(used[step])
    return list(done.values())


def _cycle(st: Statement, names: list[str]) -> Problem:
    loop = " -> ".join(names if len(names) < 12 else [*names[:5], "...", *names[-5:]])
    return st.problem(
        f"`{names[-1]}` depends on itself: {loop}",
        "A value may only read values that do not need it.",
    )
