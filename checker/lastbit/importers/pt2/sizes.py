"""Sizes in a `.pt2` file: expressions as sympy's `srepr` writes them, read without sympy."""

from __future__ import annotations

import ast
from collections.abc import Callable

from lastbit.expression import parse_expression

LONGEST = 2000  # characters of an expression
DEEPEST = 30  # parts inside parts


class SizeError(Exception):
    """An expression that cannot be read; the text says why."""


def size_text(text: str) -> str:
    """Return the integer expression that a text of sympy stands for.

    Args:
        text: such as `Mul(Integer(2), Symbol('s77', positive=True, integer=True))`.

    Raises:
        SizeError: it is none, or holds what is no integer expression.
    """
    if len(text) > LONGEST:
        raise SizeError(f"the size expression has {len(text)} characters")
    try:
        tree = ast.parse(text.strip(), mode="eval").body
    except (SyntaxError, ValueError, MemoryError, RecursionError):
        raise SizeError(f"{text[:60]!r} is no size expression") from None
    expression = parse_expression(_text(tree, 0))
    return expression.text if expression.symbols else str(expression.evaluate({}))


def _joined(sign: str) -> Callable[[list[str]], str]:
    return lambda parts: f"({f' {sign} '.join(parts)})"


def _called(name: str) -> Callable[[list[str]], str]:
    return lambda parts: f"{name}({', '.join(parts)})"


_FORMS: dict[str, Callable[[list[str]], str]] = {
    "Add": _joined("+"),
    "Mul": _joined("*"),
    "Pow": _joined("**"),
    "Max": _called("max"),
    "Min": _called("min"),
    "FloorDiv": _joined("//"),
    "CleanDiv": _joined("//"),
    "Mod": _joined("%"),
    "PythonMod": _joined("%"),
    "ceiling": _called("ceil"),
    "floor": _called("floor"),
}


def _text(tree: ast.expr, depth: int) -> str:
    if depth > DEEPEST:
        raise SizeError("a size expression is nested too deeply")
    match tree:
        case ast.Call(func=ast.Name(id="Symbol"), args=[ast.Constant(value=str(name)), *_]):
            if not name.isidentifier() or not name.isascii() or len(name) > 100:
                raise SizeError(f"the symbol {name[:60]!r} is no name")
            return name
        case ast.Call(func=ast.Name(id="Integer"), args=[arg]):
            return _text(arg, depth + 1)
        case ast.Call(func=ast.Name(id="Rational"), args=[a, b]):
            return f"({_text(a, depth + 1)} / {_text(b, depth + 1)})"
        case ast.Call(func=ast.Name(id=name), args=args) if name in _FORMS and args:
            return _FORMS[name]([_text(arg, depth + 1) for arg in args])
        case ast.Constant(value=int() as value) if type(value) is int and abs(value) < 2**63:
            return str(value)
        case ast.UnaryOp(op=ast.USub(), operand=operand):
            return f"(-{_text(operand, depth + 1)})"
        case ast.Name(id=name):
            return name
        case ast.BinOp(left=left, op=ast.Add() | ast.Sub() | ast.Mult() | ast.FloorDiv() as op):
            signs = {ast.Add: "+", ast.Sub: "-", ast.Mult: "*", ast.FloorDiv: "//"}
            return f"({_text(left, depth + 1)} {signs[type(op)]} {_text(tree.right, depth + 1)})"
    raise SizeError(f"{ast.unparse(tree)[:60]!r} is no size")
