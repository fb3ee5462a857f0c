"""Where a recorded operation stands in the user's file, and which variable it is assigned to."""

from __future__ import annotations

import ast
import linecache
import os
import sys
from collections.abc import Iterator
from functools import lru_cache
from types import CodeType, FrameType

from lastbit.errors import Place

# Frames of these packages are on the way to the user's line, never that line itself.
PACKAGES = {"lastbit", "numpy", "torch", "jax", "ml_dtypes"}

Span = tuple[int, int, int, int]  # first line, its column in bytes, last line, its column


def caller() -> tuple[Place, str | None]:
    """Return the place of the user's expression that is being computed, and its variable."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        root = str(frame.f_globals.get("__name__", "")).partition(".")[0]
        if root not in PACKAGES:
            return _place(frame), _variable(frame)
        frame = frame.f_back
    return Place(), None


def shown_file(path: str) -> str:
    """Return a path for messages: relative where that is shorter."""
    if not os.path.isabs(path):
        return path
    relative = os.path.relpath(path)
    return path if relative.startswith(os.pardir) else relative


def place_of(file: str, line: int, column: int = 0) -> Place:
    """Return a place in a source file, with its line."""
    source = linecache.getline(file, line).rstrip("\n")
    return Place(shown_file(file), line, column, source)


@lru_cache(maxsize=256)
def _spans(code: CodeType) -> tuple[tuple[int | None, int | None, int | None, int | None], ...]:
    return tuple((line, col, end, end_col) for line, end, col, end_col in code.co_positions())


def _span(frame: FrameType) -> Span | None:
    spans = _spans(frame.f_code)
    at = frame.f_lasti // 2
    if not 0 <= at < len(spans):
        return None
    line, column, last, end = spans[at]
    if line is None or column is None or last is None or end is None:
        return None
    return line, column, last, end


def _place(frame: FrameType) -> Place:
    file, span = frame.f_code.co_filename, _span(frame)
    if span is None:
        return place_of(file, frame.f_lineno)
    line = linecache.getline(file, span[0])
    column = len(line.encode()[: span[1]].decode(errors="replace")) + 1 if line else 0
    return place_of(file, span[0], column)


def _variable(frame: FrameType) -> str | None:
    span = _span(frame)
    lines = linecache.getlines(frame.f_code.co_filename, frame.f_globals)
    return None if span is None or not lines else _targets("".join(lines)).get(span)


@lru_cache(maxsize=16)
def _targets(text: str) -> dict[Span, str]:
    """Return the name that the value of each assignment gets, by the place of the value."""
    try:
        tree = ast.parse(text)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return {}
    found: dict[Span, str] = {}
    for node in ast.walk(tree):
        for value, name in _assigned(node):
            for span in _value_spans(value):
                found.setdefault(span, name)
    return found


def _assigned(node: ast.AST) -> Iterator[tuple[ast.expr | ast.stmt, str]]:
    match node:
        case ast.Assign(targets=[ast.Name(id=name)], value=value):
            yield value, name
        case ast.Assign(targets=[ast.Tuple(elts=names)], value=ast.Tuple(elts=values)):
            for target, value in zip(names, values, strict=False):
                if isinstance(target, ast.Name):
                    yield value, target.id
        case ast.AnnAssign(target=ast.Name(id=name), value=ast.expr() as value):
            yield value, name
        case ast.NamedExpr(target=ast.Name(id=name), value=value):
            yield value, name
        case ast.AugAssign(target=ast.Name(id=name)):
            yield node, name


def _value_spans(value: ast.expr | ast.stmt) -> Iterator[Span]:
    last, end = value.end_lineno, value.end_col_offset
    if last is None or end is None:
        return
    yield value.lineno, value.col_offset, last, end
    match value:
        case ast.Call(func=ast.Attribute(end_lineno=int(line), end_col_offset=int(column)) as func):
            # The call of a method on a later line counts from the method's name on.
            yield line, column - len(func.attr), last, end
