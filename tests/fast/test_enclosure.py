"""Enclosures: each holds the number it stands for, is as narrow as asked, and lies in wider ones.

Oracles: mpmath at 3,000 bits, Python's math, and series of rationals with bounds of their
remainders (Abramowitz and Stegun, 4.2.1, 4.1.27, 4.3.65, 4.3.66 and 7.1.5), which share nothing
with lastbit.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction

import mpmath
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numbers_of import f

from lastbit.formats import identical
from lastbit.reals import (
    Number,
    Real,
    apply,
    named,
    same,
    sign,
)
from lastbit.rounding import Rounding, round_exact

INF, NAN = math.inf, math.nan


def enclosed(x: Number, bits: int = 64) -> tuple[Fraction, Fraction]:
    assert isinstance(x, (Fraction, Real))
    return (x, x) if isinstance(x, Fraction) else x.enclose(bits)


MATH: dict[str, Callable[[float], float]] = {
    "exp": math.exp,
    "exp2": math.exp2,
    "expm1": math.expm1,
    "tanh": math.tanh,
    "erf": math.erf,
    "sin": math.sin,
    "cos": math.cos,
    "sqrt": math.sqrt,
    "log": math.log,
    "log2": math.log2,
    "log1p": math.log1p,
}
POSITIVE = ("sqrt", "log", "log2", "log1p")


@pytest.mark.parametrize("fn", MATH)
def test_enclosures_lie_within_two_ulp_of_binary64_of_what_python_computes(fn: str) -> None:
    for n in (1, 3, 7, 200, 257):
        for d in (1, 8, 64, 2**30):
            for x in [Fraction(n, d)] if fn in POSITIVE else [Fraction(n, d), Fraction(-n, d)]:
                y = MATH[fn](float(x))
                for end in enclosed(f(fn, x)):
                    assert abs(end - Fraction(y)) <= 2 * Fraction(math.ulp(y)), x


def series(first: Fraction, ratio: Callable[[int], Fraction]) -> tuple[Fraction, Fraction]:
    """Bracket the sum of terms, each the one before times ratio(n), |ratio| falling below 1/2."""
    total, term, n = first, first, 1
    while abs(term) > Fraction(1, 2**400) or abs(ratio(n)) > Fraction(1, 2):
        term *= ratio(n)
        total += term
        n += 1
    rest = 2 * abs(term)
    return total - rest, total + rest


def erf_terms(x: Fraction) -> tuple[Fraction, Fraction]:
    """Bracket erf(x) sqrt(pi) / 2 by its series."""
    return series(x, lambda n: -x * x * (2 * n - 1) / (n * (2 * n + 1)))


SERIES: dict[str, Callable[[Fraction], tuple[Fraction, Fraction]]] = {
    "exp": lambda x: series(Fraction(1), lambda n: x / n),
    "sin": lambda x: series(x, lambda n: -x * x / (2 * n * (2 * n + 1))),
    "cos": lambda x: series(Fraction(1), lambda n: -x * x / (2 * n * (2 * n - 1))),
}


@pytest.mark.parametrize("fn", SERIES)
@pytest.mark.parametrize("x", [Fraction(n, d) for n in (-9, -1, 2, 5) for d in (1, 7, 64)], ids=str)
def test_enclosures_meet_the_bracket_of_a_series(fn: str, x: Fraction) -> None:
    low, high = SERIES[fn](x)
    a, b = enclosed(f(fn, x), 320)
    assert a <= high
    assert low <= b
    assert b - a <= abs(a) / 2**319


@pytest.mark.parametrize("x", ["3", "2/7", f"{2**60 + 1}/{2**60}", f"{2**90 - 1}/{2**90}"])
def test_log_meets_the_bracket_of_the_series_of_the_area_tangent(x: str) -> None:
    y = (Fraction(x) - 1) / (Fraction(x) + 1)
    low, high = series(2 * y, lambda n: y * y * (2 * n - 1) / (2 * n + 1))
    a, b = enclosed(f("log", x), 320)
    assert a <= high
    assert low <= b


@pytest.mark.parametrize("x", [Fraction(1, 2**70), Fraction(1, 3), Fraction(2), Fraction(13, 2)])
def test_erf_and_its_complement_meet_the_bracket_of_a_series(x: Fraction) -> None:
    low, high = erf_terms(x)
    scaled = f("mul", f("erf", x), f("mul", f("sqrt", named("pi")), "1/2"))
    a, b = enclosed(scaled, 320)
    assert a <= high
    assert low <= b
    a, b = enclosed(f("sub", f("mul", f("sqrt", named("pi")), "1/2"), scaled), 256)
    root = enclosed(f("mul", f("sqrt", named("pi")), "1/2"), 500)
    assert a <= root[1] - low
    assert root[0] - high <= b


TREES = st.recursive(
    st.fractions(-8, 8, max_denominator=64),
    lambda kids: st.one_of(
        st.tuples(st.sampled_from(["add", "sub", "mul", "div", "max", "min"]), kids, kids),
        st.tuples(st.sampled_from(["neg", "abs", "sqrt", "rsqrt", "exp", "exp2", "expm1"]), kids),
        st.tuples(st.sampled_from(["log", "log2", "log1p", "sigmoid", "silu", "tanh"]), kids),
        st.tuples(st.sampled_from(["softplus", "erf", "gelu", "gelu_tanh", "sin", "cos"]), kids),
        st.tuples(st.sampled_from(["floor", "ceil", "relu", "sign"]), kids),
    ),
    max_leaves=8,
)
ORACLE: dict[str, Callable[..., mpmath.mpf]] = {
    "add": lambda x, y: x + y,
    "sub": lambda x, y: x - y,
    "mul": lambda x, y: x * y,
    "div": lambda x, y: x / y,
    "max": max,
    "min": min,
    "neg": lambda x: -x,
    "abs": abs,
    "sqrt": mpmath.sqrt,
    "rsqrt": lambda x: 1 / mpmath.sqrt(x),
    "exp": mpmath.exp,
    "exp2": lambda x: mpmath.mpf(2) ** x,
    "expm1": mpmath.expm1,
    "log": mpmath.log,
    "log2": lambda x: mpmath.log(x, 2),
    "log1p": mpmath.log1p,
    "sigmoid": lambda x: 1 / (1 + mpmath.exp(-x)),
    "silu": lambda x: x / (1 + mpmath.exp(-x)),
    "tanh": mpmath.tanh,
    "softplus": lambda x: mpmath.log1p(mpmath.exp(x)),
    "erf": mpmath.erf,
    "gelu": lambda x: x * mpmath.erfc(-x / mpmath.sqrt(2)) / 2,
    "gelu_tanh": lambda x: (
        x / (1 + mpmath.exp(-mpmath.sqrt(8 / mpmath.pi) * (x + 44715 * x**3 / mpmath.mpf(10**6))))
    ),
    "sin": mpmath.sin,
    "cos": mpmath.cos,
    "floor": mpmath.floor,
    "ceil": mpmath.ceil,
    "relu": lambda x: max(x, mpmath.mpf(0)),
    "sign": mpmath.sign,
}


def exactly(y: mpmath.mpf) -> Fraction:
    return Fraction(*map(int, mpmath.libmp.to_rational(y._mpf_)))


def both(tree: object) -> tuple[Fraction | Real, mpmath.mpf]:
    """Evaluate by lastbit and by mpmath; 1 stands for what is special, or outside 2^-200 and 2^6.

    So mpmath's rounding errors, of about 3,000 bits, stay far below 2^-1500.
    """
    if isinstance(tree, Fraction):
        return tree, mpmath.mpf(tree.numerator) / tree.denominator
    assert isinstance(tree, tuple)
    pairs = [both(kid) for kid in tree[1:]]
    value = apply(tree[0], *(x for x, _ in pairs))
    if not isinstance(value, float):
        low, high = enclosed(value)
        if value == 0 or (2**-200 < max(abs(low), abs(high)) < 64):
            y = mpmath.mpf(ORACLE[tree[0]](*(y for _, y in pairs)))
            if isinstance(value, Real):
                return value, y
            assert abs(exactly(y) - value) < Fraction(1, 2**1500)
            return both(value)
    return both(Fraction(1))


@settings(max_examples=250, derandomize=True, deadline=None)
@given(TREES)
def test_random_expressions_lie_in_their_enclosures_which_are_nested(tree: object) -> None:
    with mpmath.workprec(3000):
        value, oracle = both(tree)
    if isinstance(value, Fraction):
        return
    exact = exactly(oracle)
    outer = value.enclose(32)
    for bits in (40, 64, 100, 300):
        low, high = value.enclose(bits)
        assert outer[0] <= low < exact < high <= outer[1]
        assert high - low <= min(abs(low), abs(high)) / 2**bits
        outer = low, high
    assert sign(value) == (exact > 0) - (exact < 0)


def test_enclosures_leave_the_contexts_of_mpmath_alone() -> None:
    before = mpmath.mp.prec, mpmath.iv.prec
    enclosed(f("gelu", 3), 1000)
    assert (mpmath.mp.prec, mpmath.iv.prec) == before


def test_a_rounding_is_decided_where_64_bits_are_too_few() -> None:
    # exp(2^-40) / (1 + 2^-40) is 1 + 2^-81 - ..., just above a value of every format
    near_one = f("div", f("exp", Fraction(1, 2**40)), 1 + Fraction(1, 2**40))
    assert round_exact(near_one, Rounding.of("f64")) == 1
    assert round_exact(near_one, Rounding.of("f64", "rup")) == 1 + Fraction(1, 2**52)


def test_values_far_outside_a_format_round_as_they_should() -> None:
    f32 = Rounding.of("f32")
    largest = f32.format.max_finite
    assert round_exact(f("exp", largest), f32) == INF
    assert round_exact(f("exp", largest), Rounding.of("f32", "rtz")) == largest
    assert round_exact(f("exp", -largest), f32) == 0
    assert round_exact(f("exp", -largest), Rounding.of("f32", "rup")) == f32.format.min_subnormal
    assert identical(round_exact(f("gelu", -100), f32), -0.0)
    assert identical(round_exact(f("softplus", -10000), f32), Fraction(0))
    assert round_exact(f("sigmoid", 10000), f32) == 1
    assert f("exp", f("exp", 1000)).enclose(64) == (2**32768, 2**32768)
    assert f("exp", -(10**6)).enclose(64) == (Fraction(1, 2**32768), Fraction(1, 2**32768))
    tiny, bound = f("exp", f("neg", f("exp", 1000))), f("exp", -(Fraction(2) ** 1100))
    assert tiny.enclose(64)[1] == Fraction(1, 2**32768)
    assert same(tiny, f("div", bound, 2)) is None  # enclosures of so small numbers begin at zero
    huge, bound = f("exp", f("exp", 1000)), f("exp", Fraction(2) ** 1100)
    assert same(huge, f("mul", bound, 2)) is None  # and those of so large ones have no end
