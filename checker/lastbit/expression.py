"""Integer expressions of symbols, such as `max(1, 132 // ceil(M / 128))`.

An expression is parsed with `ast`, every node is compared with a whitelist, and it is evaluated
by this module in exact rationals; nothing reaches `eval`. The result must be an integer.
"""

from __future__ import annotations

import ast
import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property, lru_cache, partial

from lastbit.errors import InputError, Problem, did_you_mean

ALLOWED = "integers, symbols, + - * / // % **, min, max, ceil and floor"
MAX_LENGTH = 500  # characters; keeps `ast` far from its recursion limit
MAX_BITS = 512  # of a numerator or a denominator, in every intermediate result
MAX_EXPONENT = 64
MAX_DEPTH = 50  # of parts inside parts

_FUNCTIONS: dict[str, tuple[int, int | None, Callable[[list[Fraction]], Fraction]]] = {
    "ceil": (1, 1, lambda args: Fraction(math.ceil(args[0]))),
    "floor": (1, 1, lambda args: Fraction(math.floor(args[0]))),
    "max": (1, None, max),
    "min": (1, None, min),
}


class ExpressionError(InputError):
    """An expression that cannot be used.

    Attributes:
        text: the expression.
        reason: what is wrong with it.
        remedy: what is allowed, or what to do.
    """

    def __init__(self, text: str, reason: str, remedy: str) -> None:
        self.text, self.reason, self.remedy = text, reason, remedy
        super().__init__([Problem(f"expression {text!r}: {reason}", remedy)])


@dataclass(frozen=True)
class Expression:
    """An integer expression of symbols, by its canonical text; see `parse_expression`."""

    text: str

    @cached_property
    def _body(self) -> ast.expr:
        return _checked(self.text)

    @cached_property
    def symbols(self) -> frozenset[str]:
        """The names of the sizes that the value depends on."""
        return frozenset(_symbols(self._body))

    def evaluate(self, sizes: Mapping[str, int]) -> int:
        """Return the value at the given sizes.

        Args:
            sizes: a size for each symbol; others are ignored.

        Returns:
            The value, exact.

        Raises:
            ExpressionError: a symbol has no size, a division by zero, a power or an intermediate
                result beyond the bounds, or a result that is no integer.
        """
        try:
            value = _value(self._body, sizes)
        except _NoValueError as error:
            raise ExpressionError(self.text, error.reason, error.remedy) from None
        if value.denominator != 1:
            reason = f"the value {value} is no integer at {_at(sizes, self.symbols)}"
            raise ExpressionError(self.text, reason, "Use //, ceil or floor.")
        return value.numerator

    def __str__(self) -> str:
        return self.text


@lru_cache(maxsize=1024)
def parse_expression(text: str) -> Expression:
    """Return the expression that a text stands for, in canonical form.

    Args:
        text: sums, products, quotients, remainders and powers of integers and symbols, with
            `min`, `max`, `ceil` and `floor`.

    Returns:
        The expression; `parse_expression(str(e)) == e`.

    Raises:
        ExpressionError: the text is too long, no expression, or holds what is not allowed.
    """
    return Expression(ast.unparse(_checked(text)))


class _NoValueError(Exception):
    def __init__(self, reason: str, remedy: str) -> None:
        super().__init__(reason)
        self.reason, self.remedy = reason, remedy


def _checked(text: str) -> ast.expr:
    """Return the syntax tree of a text in which every node is allowed."""
    if len(text) > MAX_LENGTH:
        reason = f"{len(text)} characters are too many"
        raise ExpressionError(text[:40] + "...", reason, f"Allowed: {MAX_LENGTH}.")
    try:
        body = ast.parse(text.strip(), mode="eval").body
    except (SyntaxError, ValueError, MemoryError, RecursionError):
        raise ExpressionError(text, "this is no expression", f"Allowed: {ALLOWED}.") from None
    problem = _problem(body)
    if problem:
        raise ExpressionError(text, *problem)
    return body


def _problem(node: ast.expr, depth: int = 1) -> tuple[str, str] | None:
    """Return the first thing in a syntax tree that is not allowed, and the remedy."""
    if depth > MAX_DEPTH:
        return "it is nested too deeply", f"Allowed: {MAX_DEPTH} levels."
    allowed = f"Allowed: {ALLOWED}."
    inside = partial(_problem, depth=depth + 1)
    match node:
        case ast.Constant(value=int() as value) if type(value) is int:
            if value.bit_length() > MAX_BITS:
                return f"the integer has {value.bit_length()} bits", f"Allowed: {MAX_BITS} bits."
            return None
        case ast.Name(id=name):
            if name in _FUNCTIONS:
                return f"{name!r} is a function", f"Call it: {name}(...)."
            return None
        case ast.UnaryOp(op=ast.UAdd() | ast.USub(), operand=operand):
            return inside(operand)
        case ast.BinOp(left=left, op=op, right=right):
            if type(op) not in _OPERATORS:
                return f"the operator in {ast.unparse(node)!r} is not allowed", allowed
            return inside(left) or inside(right)
        case ast.Call(func=ast.Name(id=name), args=args, keywords=keywords):
            if name not in _FUNCTIONS:
                remedy = allowed if name.startswith("_") else did_you_mean(name, _FUNCTIONS)
                return f"a call of {name!r} is not allowed", remedy
            least, most, _ = _FUNCTIONS[name]
            starred = any(isinstance(arg, ast.Starred) for arg in args)
            if keywords or starred or len(args) < least or (most and len(args) > most):
                form = f"{name}(a)" if most == 1 else f"{name}(a, b, ...)"
                return f"the arguments of {ast.unparse(node)!r} do not fit", f"Write {form}."
            return next(filter(None, map(inside, args)), None)
    return f"{ast.unparse(node)!r} is not allowed", allowed


def _symbols(node: ast.expr) -> Iterator[str]:
    match node:
        case ast.Name(id=name):
            yield name
        case ast.UnaryOp(operand=operand):
            yield from _symbols(operand)
        case ast.BinOp(left=left, right=right):
            yield from _symbols(left)
            yield from _symbols(right)
        case ast.Call(args=args):
            for arg in args:
                yield from _symbols(arg)


def _value(node: ast.expr, sizes: Mapping[str, int]) -> Fraction:
    value = _unbounded_value(node, sizes)
    if max(value.numerator.bit_length(), value.denominator.bit_length()) > MAX_BITS:
        reason = f"{ast.unparse(node)!r} needs more than {MAX_BITS} bits"
        raise _NoValueError(reason, "Use smaller numbers.")
    return value


def _unbounded_value(node: ast.expr, sizes: Mapping[str, int]) -> Fraction:
    match node:
        case ast.Constant(value=int() as integer):
            return Fraction(integer)
        case ast.Name(id=name):
            if name not in sizes:
                raise _NoValueError(f"the symbol {name!r} has no size", did_you_mean(name, sizes))
            return Fraction(sizes[name])
        case ast.UnaryOp(op=op, operand=operand):
            value = _value(operand, sizes)
            return -value if isinstance(op, ast.USub) else value
        case ast.BinOp(left=left, op=op, right=right):
            return _OPERATORS[type(op)](node, _value(left, sizes), _value(right, sizes))
        case ast.Call(func=ast.Name(id=name), args=args):
            return _FUNCTIONS[name][2]([_value(arg, sizes) for arg in args])
    raise AssertionError(node)  # `_problem` lets nothing else through


def _divided(node: ast.BinOp, left: Fraction, right: Fraction) -> Fraction:
    if right == 0:
        reason = f"{ast.unparse(node)!r} divides by zero"
        raise _NoValueError(reason, "Guard the divisor with max(1, ...).")
    match node.op:
        case ast.Div():
            return left / right
        case ast.FloorDiv():
            return Fraction(left // right)
    return left % right


def _power(node: ast.BinOp, left: Fraction, right: Fraction) -> Fraction:
    if right.denominator != 1 or not 0 <= right <= MAX_EXPONENT:
        reason = f"the exponent of {ast.unparse(node)!r} is {right}"
        raise _NoValueError(reason, f"Allowed: integers from 0 to {MAX_EXPONENT}.")
    return Fraction(left ** int(right))


_OPERATORS: dict[type[ast.operator], Callable[[ast.BinOp, Fraction, Fraction], Fraction]] = {
    ast.Add: lambda _, left, right: left + right,
    ast.Sub: lambda _, left, right: left - right,
    ast.Mult: lambda _, left, right: left * right,
    ast.Div: _divided,
    ast.FloorDiv: _divided,
    ast.Mod: _divided,
    ast.Pow: _power,
}


def _at(sizes: Mapping[str, int], symbols: frozenset[str]) -> str:
    return ", ".join(f"{name}={sizes[name]}" for name in sorted(symbols)) or "any size"
