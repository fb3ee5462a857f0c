"""Elementwise functions of enclosures, with the special values of the exact core.

numpy, like the C libraries it calls, promises no correctly rounded functions; published errors are
at most a few ulp (Zimmermann et al., "Accuracy of Mathematical Functions in Single, Double, Double
Extended, and Quadruple Precision"). `MARGIN` allows for 16 ulp of binary64, `WIDE` for 256.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction
from functools import lru_cache
from typing import Any, Final

import numpy as np

from lastbit.formats import as_exact
from lastbit.interpret import intervals as iv
from lastbit.interpret.intervals import Floats, Interval
from lastbit.reals import FUNCTIONS, named

MARGIN: Final = 2.0**-48
WIDE: Final = 2.0**-44
SPECIALS: Final = (0.0, -0.0, math.inf, -math.inf, math.nan)
FAR: Final = 2.0**20  # sines of larger arguments are left to the exact core

ONE: Final = iv.exactly(1.0)
ZERO: Final = iv.exactly(0.0)


def elementary(fn: str, xs: tuple[Interval, ...], exact: bool = False) -> Interval:
    """Return an elementwise function of enclosures.

    Args:
        fn: the name of the function, as in `lastbit.reals.FUNCTIONS`.
        xs: its arguments, which broadcast.
        exact: whether binary64 holds the products of known numbers.

    Returns:
        an enclosure; every element of a function that has no array form is unknown.
    """
    if fn == "mul":
        return iv.mul(xs[0], xs[1], exact)
    if fn in _PLAIN:
        return _PLAIN[fn](*xs)
    shape = np.broadcast_shapes(*(x.lo.shape for x in xs))
    if fn not in _CURVED:
        zeros = np.zeros(shape)
        return Interval(zeros, zeros, np.ones(shape, np.bool_))
    (x,) = xs
    out = _CURVED[fn](x)
    finite = np.isfinite(out.lo) & np.isfinite(out.hi)
    unknown = iv.either(out.unknown, x.unknown, None if finite.all() else ~finite)
    return _with_specials(fn, x, Interval(out.lo, out.hi, unknown))


def _with_specials(fn: str, x: Interval, out: Interval) -> Interval:
    """Return `out` with the exact core's values where x is a zero, infinite or NaN."""
    special = (x.lo == 0) | ~np.isfinite(x.lo)
    if not x.exact:
        special &= x.known()
    if not special.any():
        return out
    lo, hi = np.array(out.lo), np.array(out.hi)
    unknown = np.zeros(lo.shape, np.bool_) if out.unknown is None else np.array(out.unknown)
    for i, value in enumerate(SPECIALS):
        same = np.isnan(x.lo) if math.isnan(value) else x.lo == value
        at = special & same & ((np.signbit(x.lo) == np.signbit(value)) | np.isnan(x.lo))
        if at.any():
            there = _at(fn, i)
            lo[at], hi[at], unknown[at] = there.lo, there.hi, there.unknown is not None
    return Interval(lo, hi, unknown if unknown.any() else None)


@lru_cache(maxsize=256)
def _at(fn: str, i: int) -> Interval:
    return iv.of_number(FUNCTIONS[fn](as_exact(SPECIALS[i])))


Point = Callable[[Floats], Any]


def _rising(point: Point, margin: float = MARGIN, positive: bool = False) -> Any:
    """Return an increasing function from one that is computed with an error below the margin."""

    def curved(x: Interval) -> Interval:
        low = np.asarray(point(x.lo))
        high = low if x.exact else np.asarray(point(x.hi))
        lo = iv.below(low, margin)
        return Interval(np.maximum(lo, 0.0) if positive else lo, iv.above(high, margin))

    return curved


def _with_points(curved: Any, known: Callable[[Floats], tuple[Any, Any]]) -> Any:
    """Return a function that is exact at some arguments: (where, the value there)."""

    def corrected(x: Interval) -> Interval:
        out: Interval = curved(x)
        where, value = known(x.lo)
        where = where & x.known()
        if not where.any():
            return out
        lo = np.where(where, value, out.lo)
        return Interval(lo, lo if where.all() else np.where(where, value, out.hi))

    return corrected


def _powers(x: Floats) -> tuple[Any, Any]:
    integer = (np.rint(x) == x) & (np.abs(x) < 1000)
    return integer, np.ldexp(1.0, np.where(integer, x, 0.0).astype(np.int64))


def _logarithms(x: Floats) -> tuple[Any, Any]:
    significand, exponent = np.frexp(x)
    return (significand == 0.5) & np.isfinite(x), exponent - 1.0


def _circular(point: Point) -> Any:
    def curved(x: Interval) -> Interval:
        middle = x.lo if x.exact else 0.5 * (x.lo + x.hi)
        value = np.asarray(point(middle))
        spread = np.abs(value) * MARGIN + iv.TINY
        spread = spread + np.where(np.abs(middle) > 0.5, MARGIN, 0.0)
        if not x.exact:
            spread = spread + (x.hi - x.lo)
        far = np.abs(middle) > FAR
        return Interval(value - spread, value + spread, far if far.any() else None)

    return curved


def _sigmoid(x: Floats) -> Any:
    return 1.0 / (1.0 + np.exp(-x))


def _silu(x: Interval) -> Interval:
    return iv.mul(x, _CURVED["sigmoid"](x))


_erf: Final[Any] = np.frompyfunc(math.erf, 1, 1)
_erfc: Final[Any] = np.frompyfunc(math.erfc, 1, 1)
_HALF: Final = iv.exactly(0.5)
_ROOT_HALF: Final = iv.of_number(FUNCTIONS["sqrt"](Fraction(1, 2)))
_GELU_SCALE: Final = iv.of_number(FUNCTIONS["sqrt"](FUNCTIONS["div"](Fraction(8), named("pi"))))
_GELU_CUBIC: Final = iv.of_number(Fraction("0.044715"))


def _gelu(x: Interval) -> Interval:
    """Return x / 2 * erfc(-x / sqrt(2)): no cancellation."""
    turned = _rising(lambda z: np.asarray(_erfc(-z), np.float64), WIDE, positive=True)
    return iv.mul(iv.mul(x, _HALF), turned(iv.mul(x, _ROOT_HALF)))


def _gelu_tanh(x: Interval) -> Interval:
    """Return x * sigmoid(2 u), since (1 + tanh(u)) / 2 = sigmoid(2 u): no cancellation."""
    cubic = iv.mul(_GELU_CUBIC, iv.mul(x, iv.mul(x, x)))
    return iv.mul(x, _CURVED["sigmoid"](iv.mul(_GELU_SCALE, iv.add(x, cubic))))


_CURVED: Final[dict[str, Callable[[Interval], Interval]]] = {
    "cos": _circular(np.cos),
    "erf": _rising(lambda x: np.asarray(_erf(x), np.float64), WIDE),
    "exp": _rising(np.exp, positive=True),
    "exp2": _with_points(_rising(np.exp2, positive=True), _powers),
    "expm1": _rising(np.expm1),
    "gelu": _gelu,
    "gelu_tanh": _gelu_tanh,
    "log": _with_points(_rising(np.log), lambda x: (x == 1, 0.0)),
    "log1p": _rising(np.log1p),
    "log2": _with_points(_rising(np.log2), _logarithms),
    "sigmoid": _rising(_sigmoid, positive=True),
    "silu": _silu,
    "sin": _circular(np.sin),
    "softplus": _rising(lambda x: np.log1p(np.exp(x)), positive=True),
    "tanh": _rising(np.tanh),
}

_PLAIN: Final[dict[str, Callable[..., Interval]]] = {
    "abs": iv.absolute,
    "add": iv.add,
    "ceil": lambda x: iv.stepwise(np.ceil, x),
    "clamp": lambda x, low, high: iv.minimum(iv.maximum(x, low), high),
    "div": iv.div,
    "equal": lambda a, b: iv.compare(np.equal, a, b),
    "floor": lambda x: iv.stepwise(np.floor, x),
    "less": lambda a, b: iv.compare(np.less, a, b),
    "less_equal": lambda a, b: iv.compare(np.less_equal, a, b),
    "max": iv.maximum,
    "min": iv.minimum,
    "neg": iv.neg,
    "relu": lambda x: iv.maximum(x, ZERO),
    "rsqrt": lambda x: iv.div(ONE, iv.sqrt(x)),
    "select": iv.select,
    "sign": lambda x: iv.stepwise(lambda v: np.sign(v) + 0.0, x),
    "sqrt": iv.sqrt,
    "sub": iv.sub,
}
