"""Exact numbers and the operators' functions of them, with IEEE special values and signed zeros.

A `Number` is a rational, one of the floats inf, -inf, nan and -0.0, or a `Real`, which is known
through enclosures (`enclosure`) and a normal form (`ring`). What is recognisably rational is a
`Fraction`; a `Real` counts as nonzero, and to decide about one that may be zero raises `Undecided`.

Special values follow IEEE 754-2019, clauses 6 and 9.2.1; exact sums that cancel are +0. `max` and
`min` propagate NaN and order -0 below +0 (clause 9.6). A composite follows its formula: silu(-inf)
is -inf * sigmoid(-inf), NaN.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable
from fractions import Fraction
from typing import Final, TypeAlias

from lastbit import ring
from lastbit.enclosure import ONE, Finite, Real, UndecidedSign
from lastbit.errors import LastbitError, did_you_mean
from lastbit.formats import NEGATIVE_ZERO, ZERO, Exact
from lastbit.rounding import LEAST_BITS, MOST_BITS, Undecided

__all__ = ["FUNCTIONS", "Number", "Real", "Undecided", "apply", "compare", "named", "same", "sign"]

Number: TypeAlias = Exact | Real

HALF: Final = Fraction(1, 2)
TWO: Final = Fraction(2)
INF: Final = math.inf
NAN: Final = math.nan


class UnknownNameError(LastbitError, ValueError):
    """A name that is no function, or no constant.

    Attributes:
        kind: what was looked for.
        name: the name that was given.
    """

    def __init__(self, kind: str, name: str, allowed: Iterable[str]) -> None:
        self.kind = kind
        self.name = name
        super().__init__(f"unknown {kind} {name!r}. {did_you_mean(name, allowed)}")


# Comparison.


def compare(a: Number, b: Number) -> int:
    """Return -1, 0 or 1 as a is below, equal to or above b; -0 equals 0.

    Raises:
        ValueError: one of them is NaN.
        Undecided: enclosures of 4096 bits do not decide.
    """
    if type(a) is Fraction and type(b) is Fraction:
        return (a > b) - (a < b)
    x, y = _special(a), _special(b)
    if math.isnan(x) or math.isnan(y):
        raise ValueError("NaN has no order.")
    if x or y:  # infinite
        return (x > y) - (x < y)
    return ring.compare(_finite(a), _finite(b))


def sign(x: Number) -> int:
    """Return -1, 0 or 1; of a zero of either sign, 0.

    Raises:
        ValueError: x is NaN.
        Undecided: enclosures of 4096 bits do not decide.
    """
    return compare(x, ZERO)


def same(a: Number, b: Number, bits: int = 512) -> bool | None:
    """Say whether two numbers are the same, without raising; -0 is not 0, NaN is NaN.

    Returns:
        True where the normal forms are identical, False where an enclosure of so many bits tells
        the numbers apart, else None.
    """
    if isinstance(a, float) or isinstance(b, float):
        alike = isinstance(a, float) and isinstance(b, float)
        return alike and (a == b or (a != a and b != b))
    difference = ring.combine((a, ONE), (b, -ONE))
    if isinstance(difference, Fraction):
        return not difference
    return None if difference.sign(bits) is None else False


def _special(x: Number) -> float:
    """Return a special value as it is, and 0 for a finite number."""
    if not isinstance(x, float):
        return 0.0
    if math.isfinite(x) and (x or math.copysign(1, x) > 0):
        raise TypeError(f"{x!r} is a rational; write Fraction({x!r}).")
    return x


def _finite(x: Number) -> Finite:
    return ZERO if isinstance(x, float) else x


def _is_negative(x: Number) -> bool:
    return math.copysign(1, x) < 0 if isinstance(x, float) else ring.compare(x, ZERO) < 0


def _is_nan(*xs: Number) -> bool:
    return any(isinstance(x, float) and x != x for x in xs)


# Arithmetic. Two rationals take the first line: millions of them pass.


def add(a: Number, b: Number) -> Number:
    """Return a + b."""
    if type(a) is Fraction and type(b) is Fraction:
        return a + b
    if not isinstance(a, float) and not isinstance(b, float):
        return ring.combine((a, ONE), (b, ONE))
    x, y = _special(a), _special(b)
    if x or y:
        return x + y
    return a if not isinstance(a, float) else b  # one of them is -0


def sub(a: Number, b: Number) -> Number:
    """Return a - b."""
    if type(a) is Fraction and type(b) is Fraction:
        return a - b
    return add(a, neg(b))


def neg(x: Number) -> Number:
    """Return -x."""
    if type(x) is Fraction:
        return -x if x else NEGATIVE_ZERO
    if isinstance(x, float):
        return -_special(x) or ZERO
    return ring.combine((x, -ONE)) if isinstance(x, Real) else x


def mul(a: Number, b: Number) -> Number:
    """Return a * b."""
    if type(a) is Fraction and type(b) is Fraction:
        product = a * b
        if product:
            return product
    if not isinstance(a, float) and not isinstance(b, float) and a and b:
        return ring.times(a, b)
    x, y = _special(a), _special(b)
    if _is_nan(a, b) or (math.isinf(x) and not b) or (math.isinf(y) and not a):
        return NAN
    negative = _is_negative(a) != _is_negative(b)
    if x or y:
        return -INF if negative else INF
    return NEGATIVE_ZERO if negative else ZERO


def div(a: Number, b: Number) -> Number:
    """Return a / b."""
    if type(a) is Fraction and type(b) is Fraction and a and b:
        return a / b
    return mul(a, _reciprocal(b))


def _reciprocal(x: Number) -> Number:
    if not x:
        return math.copysign(INF, _special(x))
    if isinstance(x, float):
        return x if math.isnan(x) else ZERO if _special(x) > 0 else NEGATIVE_ZERO
    return ring.inverse(x)


def absolute(x: Number) -> Number:
    """Return |x|."""
    return neg(x) if not _is_nan(x) and _is_negative(x) else x


def maximum(a: Number, b: Number) -> Number:
    """Return the larger, NaN if one is."""
    if _is_nan(a, b):
        return NAN
    order = compare(a, b)
    return (b if isinstance(a, float) else a) if order == 0 else a if order > 0 else b


def minimum(a: Number, b: Number) -> Number:
    """Return the smaller, NaN if one is."""
    if _is_nan(a, b):
        return NAN
    order = compare(a, b)
    return (a if isinstance(a, float) else b) if order == 0 else a if order < 0 else b


def power(x: Number, n: Number) -> Number:
    """Return x to the n; x^0 is 1 for every x."""
    if not n:
        return ONE
    if not isinstance(n, Fraction) or n.denominator != 1:
        x = INF if x == -INF else add(x, ZERO)
        root = isinstance(n, Fraction) and n.denominator == 2
        return power(sqrt(x), mul(TWO, n)) if root else exp(mul(n, log(x)))
    if n < 0:
        return _reciprocal(power(x, -n))
    if isinstance(x, float):
        return x if n.numerator % 2 else absolute(x)
    return ring.power(x, n.numerator)


# Functions of one argument.


def _function(
    finite: Callable[[Finite], Number], low: Number, zero: Number, high: Number
) -> Callable[[Number], Number]:
    """Extend a function of finite numbers by its values at -inf, -0 and inf; NaN stays NaN."""

    def extended(x: Number) -> Number:
        if not isinstance(x, float):
            return finite(x)
        if not _special(x):
            return zero
        return x if math.isnan(x) else high if x > 0 else low

    return extended


def _real_sqrt(x: Finite) -> Number:
    order = ring.compare(x, ZERO)
    return NAN if order < 0 else ring.sqrt(x) if order else ZERO


def _real_log(x: Finite) -> Number:
    order = ring.compare(x, ZERO)
    return NAN if order < 0 else ring.log(x) if order else -INF


exp: Final = _function(ring.exp, ZERO, ONE, INF)
log: Final = _function(_real_log, NAN, -INF, INF)
sqrt: Final = _function(_real_sqrt, NAN, NEGATIVE_ZERO, INF)
sin: Final = _function(ring.sine, NAN, NEGATIVE_ZERO, NAN)
cos: Final = _function(ring.cosine, NAN, ONE, NAN)
erf: Final = _function(ring.erf, -ONE, NEGATIVE_ZERO, ONE)
expm1: Final = _function(lambda x: sub(exp(x), ONE), -ONE, NEGATIVE_ZERO, INF)
log1p: Final = _function(lambda x: log(add(ONE, x)), NAN, NEGATIVE_ZERO, INF)
tanh: Final = _function(
    lambda x: sub(mul(TWO, sigmoid(mul(TWO, x))), ONE), -ONE, NEGATIVE_ZERO, ONE
)

LN2: Final = log(TWO)
LOG2E: Final = _reciprocal(LN2)
REAL_PI: Final = ring.atom("pi", ZERO)


def sigmoid(x: Number) -> Number:
    """Return 1 / (1 + exp(-x))."""
    return _reciprocal(add(ONE, exp(neg(x))))


def gelu(x: Number) -> Number:
    """Return x * (1 + erf(x / sqrt(2))) / 2 (arXiv 1606.08415)."""
    return mul(mul(x, HALF), add(ONE, erf(mul(x, sqrt(HALF)))))


def gelu_tanh(x: Number) -> Number:
    """Return x * (1 + tanh(sqrt(2 / pi) * (x + 0.044715 x^3))) / 2 (arXiv 1606.08415)."""
    inner = add(x, mul(Fraction("0.044715"), mul(x, mul(x, x))))
    return mul(mul(x, HALF), add(ONE, tanh(mul(sqrt(div(TWO, REAL_PI)), inner))))


def floor(x: Number) -> Number:
    """Return the largest integer not above x; infinities and -0 stay.

    Raises:
        Undecided: enclosures of 4096 bits do not decide.
    """
    if isinstance(x, float):
        return x
    if isinstance(x, Fraction):
        return Fraction(math.floor(x))
    bits = LEAST_BITS
    while bits <= MOST_BITS:
        low, high = x.enclose(bits)
        if high - low < 1 and abs(high) < 1 << bits:
            n = Fraction(math.floor(high))
            return n if compare(x, n) >= 0 else n - 1
        bits *= 2
    raise UndecidedSign(x)


def _holds(order: Callable[[int], bool]) -> Callable[[Number, Number], Number]:
    return lambda a, b: Fraction(not _is_nan(a, b) and order(compare(a, b)))


FUNCTIONS: Final[dict[str, Callable[..., Number]]] = {
    "abs": absolute,
    "add": add,
    "ceil": lambda x: neg(floor(neg(x))),
    "clamp": lambda x, low, high: minimum(maximum(x, low), high),
    "cos": cos,
    "div": div,
    "equal": _holds(lambda order: order == 0),
    "erf": erf,
    "exp": exp,
    "exp2": lambda x: exp(mul(x, LN2)),
    "expm1": expm1,
    "floor": floor,
    "gelu": gelu,
    "gelu_tanh": gelu_tanh,
    "less": _holds(lambda order: order < 0),
    "less_equal": _holds(lambda order: order <= 0),
    "log": log,
    "log1p": log1p,
    "log2": lambda x: mul(log(x), LOG2E),
    "max": maximum,
    "min": minimum,
    "mul": mul,
    "neg": neg,
    "pow": power,
    "relu": lambda x: maximum(x, ZERO),
    "rsqrt": lambda x: _reciprocal(sqrt(x)),
    "select": lambda condition, a, b: a if condition else b,
    "sigmoid": sigmoid,
    "sign": lambda x: NAN if _is_nan(x) else Fraction(sign(x)),
    "silu": lambda x: mul(x, sigmoid(x)),
    "sin": sin,
    "softplus": lambda x: log(add(ONE, exp(x))),
    "sqrt": sqrt,
    "sub": sub,
    "tanh": tanh,
}
"""The functions of the text form. Truth is 1, falsehood 0; NaN compares false and selects."""

CONSTANTS: Final[dict[str, Number]] = {"e": exp(ONE), "ln2": LN2, "log2e": LOG2E, "pi": REAL_PI}


def apply(fn: str, *args: Number) -> Number:
    """Return the function of that name.

    Raises:
        UnknownNameError: there is none.
    """
    if fn not in FUNCTIONS:
        raise UnknownNameError("function", fn, FUNCTIONS)
    return FUNCTIONS[fn](*args)


def named(name: str) -> Number:
    """Return a named constant: e, ln2, log2e, pi, sqrt(n) or 1/sqrt(n).

    Raises:
        UnknownNameError: there is none of that name.
    """
    root = re.fullmatch(r"(1/)?sqrt\((\d+)\)", name)
    if root:
        return FUNCTIONS["rsqrt" if root[1] else "sqrt"](Fraction(root[2]))
    if name not in CONSTANTS:
        raise UnknownNameError("constant", name, [*CONSTANTS, "sqrt(n)", "1/sqrt(n)"])
    return CONSTANTS[name]
