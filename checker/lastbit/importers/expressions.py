"""Expressions of the text form that importers put together: numbers, shapes, products."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from fractions import Fraction
from functools import lru_cache

from lastbit.expression import parse_expression
from lastbit.formats import format_of
from lastbit.importers.imported import Value, is_float
from lastbit.printing import number_text
from lastbit.rounding import Rounding, round_exact

LONG = 14  # digits of a literal that is more than a short decimal
MOST_RADICAND = 4096  # n of a literal that may be a rounding of 1 / sqrt(n)

Number = int | float | Fraction

# Literals in files that are roundings of reals: the real as an expression of the text form.
_REALS = {
    math.pi: "pi",
    math.log(2): "ln2",
    1 / math.log(2): "log2e",
    math.sqrt(2): "sqrt(2)",
    math.sqrt(2 / math.pi): "sqrt(2 / pi)",
    2 / math.sqrt(math.pi): "2 / sqrt(pi)",
}


def literal(number: Number, dtype: str = "f32") -> str:
    """Return a literal of a file as the number that takes part, in parentheses where needed.

    Libraries keep a literal as binary64 and round it to the format they compute in. One that is
    the rounding of a named real is written as that rounding, so that the real shows.

    Args:
        number: the literal.
        dtype: the format that it is rounded to; an integer type: not at all.
    """
    exact = number
    if isinstance(number, float):
        if number != number or abs(number) == float("inf") or number == 0:
            return _atom(number_text(Fraction(0) if str(number) == "0.0" else number))
        exact = Fraction(number)
    exact = Fraction(exact)
    if not is_float(dtype):
        return _atom(number_text(exact))
    rounding = Rounding.of(format_of(dtype))
    rounded = round_exact(exact, rounding)
    real = _named(float(number)) if isinstance(number, float) and dtype != "f64" else None
    if real is not None and len(repr(number).lstrip("-0.").replace(".", "")) > LONG:
        return f"round({real}, {dtype})"
    return _atom(number_text(rounded))


@lru_cache(maxsize=1024)
def _named(number: float) -> str | None:
    """Return the real that a binary64 number is a rounding of, or None."""
    sign, size = ("-" if number < 0 else ""), abs(number)
    for near in (size, math.nextafter(size, 0), math.nextafter(size, math.inf)):
        if near in _REALS:
            return f"{sign}{_REALS[near]}" if not sign else f"-({_REALS[near]})"
    n = round(1 / (size * size)) if 0 < size < 1 else 0
    if 1 < n <= MOST_RADICAND and abs(1 / math.sqrt(n) - size) <= 2 * math.ulp(size):
        return f"{sign}rsqrt({n})"
    return None


def _atom(text: str) -> str:
    return f"({text})" if text[:1] == "-" or "/" in text else text


@lru_cache(maxsize=4096)
def plain(text: str) -> str:
    """Return a size in canonical form; as a number where no symbol is in it."""
    if text.isdigit():
        return text
    expression = parse_expression(text)
    return expression.text if expression.symbols else str(expression.evaluate({}))


def times(dims: Iterable[str]) -> str:
    """Return the product of sizes: the number of elements."""
    number, rest = 1, []
    for dim in dims:
        if dim.isdigit():
            number *= int(dim)
        else:
            rest.append(dim if dim.isidentifier() else f"({dim})")
    parts = ([str(number)] if number != 1 or not rest else []) + rest
    return plain(" * ".join(parts))


def over(a: str, b: str) -> str:
    """Return the quotient of two sizes, rounded down."""
    if a == b:
        return "1"
    return a if b == "1" else plain(f"({a}) // ({b})")


def reshaped(x: Value | str, dims: Sequence[str]) -> str:
    """Return a value in another shape."""
    if isinstance(x, Value):
        if tuple(dims) == x.dims:
            return x.name
        x = x.name
    return f"reshape({', '.join([x, *dims])})"


def shaped(text: str, have: Sequence[str], want: Sequence[str]) -> str:
    """Return an expression of one shape in another."""
    return text if tuple(have) == tuple(want) else reshaped(text, want)


def broadcast_to(x: str, dims: Sequence[str]) -> str:
    """Return a value repeated to a shape."""
    return f"broadcast({', '.join([x, *dims])})"


def transposed(x: Value | str, order: Sequence[int]) -> str:
    """Return a value with its axes in another order."""
    name = x.name if isinstance(x, Value) else x
    if list(order) == sorted(order):
        return name
    return f"transpose({', '.join([name, *map(str, order)])})"


def sliced(x: Value, axis: int, start: str, stop: str, step: int = 1) -> str:
    """Return the elements from start to stop along an axis."""
    words = [":"] * axis + [f"{start}:{stop}" + (f":{step}" if step != 1 else "")]
    return f"{x.name}[{', '.join(words)}]"


def reduced(word: str, x: str, axes: Sequence[int]) -> str:
    """Return a reduction along several axes, which stay with size 1."""
    for axis in axes:
        x = f"{word}({x}, axis={axis})"
    return x


def summed(x: str, dims: Sequence[str], axes: Sequence[int]) -> str:
    """Return a sum over axes as one sum, from the first element to the last; they stay with size 1.

    Libraries add the elements of neighbouring axes up as those of one axis. Of axes that stand
    apart the last one comes first here: their order is a library's own, and is to meet no other
    sum by accident.

    Args:
        x: an expression.
        dims: its sizes.
        axes: the axes in order.
    """
    long = [axis for axis in axes if dims[axis] != "1"]
    if len(long) < 2:
        return reduced("sum", x, long or axes[:1])
    first, last = long[0], long[-1]
    rest = [i for i in range(len(dims)) if i not in long]
    if all(i in long or dims[i] == "1" for i in range(first, last)):
        order, place = list(range(len(dims))), first
        flat = (*dims[:first], times(dims[axis] for axis in long), *dims[last + 1 :])
    else:
        order, place = [*rest, *reversed(long)], len(rest)
        flat = (*(dims[i] for i in rest), times(dims[axis] for axis in long))
    total = f"sum({reshaped(transposed(x, order), flat)}, axis={place})"
    return reshaped(total, kept(dims, axes))


def kept(dims: Sequence[str], axes: Iterable[int]) -> tuple[str, ...]:
    """Return the sizes after a reduction that keeps its axes with size 1."""
    gone = set(axes)
    return tuple("1" if i in gone else dim for i, dim in enumerate(dims))


def broadcast_dims(*shapes: Sequence[str]) -> tuple[str, ...]:
    """Return the common sizes of shapes, as numpy does; of two symbols the first counts."""
    rank = max(map(len, shapes), default=0)
    out = ["1"] * rank
    for shape in shapes:
        for i, size in enumerate(shape, rank - len(shape)):
            if out[i] == "1":
                out[i] = size
    return tuple(out)


def product_text(a: Value, b: Value, swapped: bool = False) -> tuple[str, tuple[str, ...]]:
    """Return the matrix product of a[..., M, K] and b[..., K, N], and its sizes.

    The statement that holds it says how its sums are added.

    Args:
        a: at least 2 axes.
        b: at least 2 axes.
        swapped: whether b is [..., N, K].
    """
    m, k = a.dims[-2:]
    n = b.dims[-2] if swapped else b.dims[-1]
    if b.rank == 2:
        right = transposed(b, (1, 0)) if swapped else b.name
        left = reshaped(a, (times(a.dims[:-1]), k))
        dims = (*a.dims[:-1], n)
        text = f"matmul({left}, {right})"
        return (text if a.rank == 2 else reshaped(text, dims)), dims
    batch = broadcast_dims(a.dims[:-2], b.dims[:-2])
    left = reshaped(a, (*a.dims[:-1], "1", k))
    rank = b.rank
    turned = b.name if swapped else transposed(b, (*range(rank - 2), rank - 1, rank - 2))
    right = f"reshape({', '.join([turned, *b.dims[:-2], '1', n, k])})"
    dims = (*batch, m, n)
    return reshaped(f"sum({left} * {right}, axis=-1)", dims), dims
