"""Reals: special values follow IEEE 754, what is rational is recognised, equal expressions meet."""

from __future__ import annotations

import math
from fractions import Fraction

import mpmath
import pytest
from numbers_of import f

from lastbit.enclosure import UndecidedSign
from lastbit.formats import identical
from lastbit.reals import (
    FUNCTIONS,
    Number,
    Real,
    Undecided,
    UnknownNameError,
    apply,
    compare,
    named,
    same,
    sign,
)
from lastbit.rounding import Rounding, round_exact

INF, NAN = math.inf, math.nan


# Special values.

SPECIALS: dict[str, dict[str, str | float]] = {
    "neg": {"0": -0.0, "-0": "0", "inf": -INF, "nan": NAN},
    "abs": {"-0": "0", "-inf": INF, "nan": NAN},
    "sqrt": {"0": "0", "-0": -0.0, "-1": NAN, "inf": INF, "-inf": NAN, "nan": NAN},
    "rsqrt": {"0": INF, "-0": -INF, "inf": "0", "-1": NAN},
    "exp": {"-inf": "0", "inf": INF, "0": "1", "-0": "1", "nan": NAN},
    "exp2": {"-inf": "0", "inf": INF, "-0": "1", "-3": "1/8", "nan": NAN},
    "expm1": {"-inf": "-1", "inf": INF, "-0": -0.0, "0": "0"},
    "log": {"0": -INF, "-0": -INF, "1": "0", "inf": INF, "-inf": NAN, "-1": NAN},
    "log2": {"0": -INF, "inf": INF, "1/8": "-3", "1": "0"},
    "log1p": {"-1": -INF, "-0": -0.0, "0": "0", "-2": NAN, "inf": INF},
    "sigmoid": {"-inf": "0", "inf": "1", "0": "1/2", "-0": "1/2", "nan": NAN},
    "silu": {"-inf": NAN, "inf": INF, "0": "0", "-0": -0.0},
    "tanh": {"-inf": "-1", "inf": "1", "0": "0", "-0": -0.0},
    "softplus": {"-inf": "0", "inf": INF, "nan": NAN},
    "erf": {"-inf": "-1", "inf": "1", "0": "0", "-0": -0.0},
    "gelu": {"-inf": NAN, "inf": INF, "0": "0", "-0": -0.0},
    "gelu_tanh": {"-inf": NAN, "inf": INF, "0": "0", "-0": -0.0},
    "sin": {"inf": NAN, "-0": -0.0, "0": "0"},
    "cos": {"-inf": NAN, "-0": "1", "0": "1"},
    "relu": {"-0": "0", "-3": "0", "inf": INF, "nan": NAN},
    "sign": {"-0": "0", "-inf": "-1", "2": "1", "nan": NAN},
    "floor": {"-1/2": "-1", "-0": -0.0, "inf": INF, "nan": NAN},
    "ceil": {"-1/2": -0.0, "1/2": "1", "0": "0", "-0": -0.0},
    "add": {"inf -inf": NAN, "-0 0": "0", "-0 -0": -0.0, "1 -1": "0", "-0 3": "3", "1 nan": NAN},
    "sub": {"inf inf": NAN, "0 0": "0", "-0 0": -0.0, "0 -0": "0", "1 inf": -INF},
    "mul": {"-1 0": -0.0, "-0 -2": "0", "inf 0": NAN, "-0 inf": NAN, "-2 inf": -INF, "0 0": "0"},
    "div": {"0 0": NAN, "1 -0": -INF, "-1 0": -INF, "inf inf": NAN, "1 -inf": -0.0, "0 -3": -0.0},
    "max": {"-0 0": "0", "0 -0": "0", "nan 1": NAN, "1 nan": NAN, "-inf 2": "2", "-0 -0": -0.0},
    "min": {"-0 0": -0.0, "0 -0": -0.0, "nan 1": NAN, "inf inf": INF, "inf 2": "2"},
    "pow": {
        "-0 3": -0.0,
        "-0 -3": -INF,
        "-2 2": "4",
        "0 -1": INF,
        "nan 0": "1",
        "-inf 2": INF,
        "-0 1/2": "0",
        "-inf 1/2": INF,
        "-8 1/3": NAN,
        "0 2/3": "0",
        "4 inf": INF,
    },
    "less": {"-0 0": "0", "nan 1": "0", "-inf inf": "1", "inf inf": "0", "1 2": "1"},
    "less_equal": {"-0 0": "1", "nan nan": "0", "inf inf": "1", "2 1": "0"},
    "equal": {"-0 0": "1", "nan nan": "0", "inf inf": "1", "inf -inf": "0", "inf 1": "0"},
    "clamp": {"5 -1 1": "1", "-inf -1 1": "-1", "nan -1 1": NAN, "-0 -1 1": -0.0},
    "select": {"0 5 7": "7", "-0 5 7": "7", "2 5 7": "5", "nan 5 inf": "5"},
}


def number(text: str) -> Number:
    floats = {"inf": INF, "-inf": -INF, "nan": NAN, "-0": -0.0}
    return floats[text] if text in floats else Fraction(text)


CASES = [(fn, args, value) for fn, row in SPECIALS.items() for args, value in row.items()]


@pytest.mark.parametrize(("fn", "args", "value"), CASES, ids=lambda x: str(x))
def test_special_values_follow_ieee_754(fn: str, args: str, value: str | float) -> None:
    got = f(fn, *map(number, args.split()))
    assert not isinstance(got, Real)
    assert identical(got, Fraction(value) if isinstance(value, str) else value)


def test_special_values_meet_reals() -> None:
    x, y = f("exp", 1), f("sub", f("exp", 1), 3)  # e - 3 is negative
    assert f("add", x, -INF) == f("mul", y, INF) == f("div", y, Fraction(0)) == -INF
    assert identical(f("mul", y, Fraction(0)), -0.0)
    assert identical(f("div", x, -INF), -0.0)
    assert f("add", x, -0.0) == f("max", x, -INF) == f("min", INF, x) == f("abs", f("neg", x)) == x
    assert math.isnan(f("mul", x, NAN))
    assert f("less", y, -0.0) == f("less", x, INF) == 1


def test_every_function_of_the_table_has_a_special_case() -> None:
    assert set(SPECIALS) == set(FUNCTIONS)


# Normal forms.

LN2, LOG2E, PI, ROOT3 = named("ln2"), named("log2e"), named("pi"), named("sqrt(3)")
E = f("exp", 1)

RATIONAL: dict[str, tuple[Number, str]] = {
    "ln2 - ln2": (f("sub", LN2, LN2), "0"),
    "exp(ln2)": (f("exp", LN2), "2"),
    "exp(-ln2)": (f("exp", f("neg", LN2)), "1/2"),
    "ln2 log2e": (f("mul", LN2, LOG2E), "1"),
    "log2(exp(log(8) / 3))": (f("log2", f("exp", f("div", f("log", 8), 3))), "1"),
    "sqrt(9/4)": (f("sqrt", "9/4"), "3/2"),
    "sqrt(3)^2": (f("mul", ROOT3, ROOT3), "3"),
    "sqrt(3) rsqrt(12)": (f("mul", ROOT3, f("rsqrt", 12)), "1/2"),
    "sqrt(pi)^2 / pi": (f("div", f("pow", f("sqrt", PI), 2), PI), "1"),
    "4^(3/2)": (f("pow", 4, "3/2"), "8"),
    "exp(1) exp(-1)": (f("mul", E, f("exp", -1)), "1"),
    "log(exp(1))": (f("log", E), "1"),
    "exp(log(1 + e)) - e": (f("sub", f("exp", f("log", f("add", E, 1))), E), "1"),
    "sin(pi)": (f("sin", PI), "0"),
    "cos(-pi)": (f("cos", f("neg", PI)), "-1"),
    "sin(pi/2)": (f("sin", f("div", PI, 2)), "1"),
    "(e + 1) / (2e + 2)": (f("div", f("add", E, 1), f("mul", f("add", E, 1), 2)), "1/2"),
    "(1 / (1 - e)) (e - 1)": (f("mul", f("div", 1, f("sub", 1, E)), f("sub", E, 1)), "-1"),
    "(1 / (1 - e)) (1 - e)": (f("mul", f("div", 1, f("sub", 1, E)), f("sub", 1, E)), "1"),
    "floor(log2(6))": (f("floor", f("log2", 6)), "2"),
    "ceil(-sqrt(2))": (f("ceil", f("neg", named("sqrt(2)"))), "-1"),
    "floor(exp(100))": (f("floor", f("exp", 100)), "26881171418161354484126255515800135873611118"),
}


@pytest.mark.parametrize("name", RATIONAL)
def test_what_is_rational_is_recognised(name: str) -> None:
    value, expected = RATIONAL[name]
    assert type(value) is Fraction
    assert value == Fraction(expected)


EQUAL: dict[str, tuple[Number, Number]] = {
    "exp2(x log2e) and exp(x)": (f("exp2", f("mul", "3/7", LOG2E)), f("exp", "3/7")),
    "exp2(7/2) and 8 sqrt(2)": (f("exp2", "7/2"), f("mul", 8, named("sqrt(2)"))),
    "sigmoid and its formula": (
        f("sigmoid", "5/3"),
        f("div", 1, f("add", 1, f("exp", f("neg", Fraction(5, 3))))),
    ),
    "sigmoid(x) and exp(x) / (exp(x) + 1)": (
        f("sigmoid", -2),
        f("div", f("exp", -2), f("add", f("exp", -2), 1)),
    ),
    "1 + tanh(x) and 2 sigmoid(2x)": (
        f("add", 1, f("tanh", -3)),
        f("mul", 2, f("sigmoid", -6)),
    ),
    "sqrt(e^2 pi) and e sqrt(pi)": (
        f("sqrt", f("mul", f("exp", 2), PI)),
        f("mul", E, f("sqrt", PI)),
    ),
    "(e + 1) (e + 2) and e^2 + 3e + 2": (
        f("mul", f("add", E, 1), f("add", E, 2)),
        f("add", f("exp", 2), f("add", f("mul", 3, E), 2)),
    ),
    "sqrt(72) and 6 sqrt(2)": (named("sqrt(72)"), f("mul", 6, named("sqrt(2)"))),
    "erf(-x) and -erf(x)": (f("erf", f("neg", E)), f("neg", f("erf", E))),
    "1/sqrt(128) and sqrt(2)/16": (named("1/sqrt(128)"), f("div", named("sqrt(2)"), 16)),
}


@pytest.mark.parametrize("name", EQUAL)
def test_equal_expressions_have_one_normal_form(name: str) -> None:
    a, b = EQUAL[name]
    assert isinstance(a, Real)
    assert a == b
    assert hash(a) == hash(b)
    assert same(a, b) is True
    assert compare(a, b) == 0


def weighted(xs: list[Fraction], vs: list[Fraction], m: Number) -> tuple[Number, Number, Number]:
    """Return the statistics of a block under softmax: maximum, sum of weights, weighted sum."""
    total: Number = Fraction(0)
    out: Number = Fraction(0)
    for x, v in zip(xs, vs, strict=True):
        weight = f("exp", f("sub", x, m))
        total, out = f("add", total, weight), f("add", out, f("mul", weight, v))
    return m, total, out


def test_online_softmax_is_softmax_exactly() -> None:
    xs = [Fraction(n, 8) for n in (3, -5, 17, 2, 40, -9, 11)]
    vs = [Fraction(n) for n in (1, -2, 3, 5, -7, 4, 2)]
    m, total, out = weighted(xs, vs, max(xs))
    left, right = weighted(xs[:3], vs[:3], max(xs[:3])), weighted(xs[3:], vs[3:], max(xs[3:]))
    top = f("max", left[0], right[0])
    scales = [f("exp", f("sub", part[0], top)) for part in (left, right)]
    totals, outs = (
        f("add", f("mul", scales[0], left[i]), f("mul", scales[1], right[i])) for i in (1, 2)
    )
    assert f("div", outs, totals) == f("div", out, total)
    assert f("add", f("log", totals), top) == f("add", f("log", total), m)
    _, raw_total, raw_out = weighted(xs, vs, Fraction(0))
    assert f("div", raw_out, raw_total) == f("div", out, total)


def to_mpf(x: Fraction) -> mpmath.mpf:
    return mpmath.mpf(x.numerator) / x.denominator


def test_a_product_of_long_sums_keeps_its_value() -> None:
    a, b = Fraction(0), Fraction(0)
    for n in range(1, 10):  # 81 terms are too many to multiply out
        a, b = f("add", a, f("exp", n)), f("sub", b, f("exp", Fraction(1, n)))
    low, high = f("mul", a, b).enclose(64)
    with mpmath.workprec(200):
        ns = range(1, 10)
        oracle = -sum(map(mpmath.exp, ns)) * sum(mpmath.exp(mpmath.mpf(1) / n) for n in ns)
        assert to_mpf(low) < oracle < to_mpf(high)


# Decisions and errors.


def test_same_tells_equal_different_and_unknown_apart() -> None:
    assert same(E, f("add", E, Fraction(1, 2**300))) is False
    assert same(f("mul", ROOT3, named("sqrt(2)")), named("sqrt(6)")) is None
    assert same(NAN, NAN) is same(INF, INF) is same(Fraction(1), Fraction(1)) is True
    assert same(-0.0, Fraction(0)) is same(INF, E) is same(INF, -INF) is False


def test_a_number_that_may_be_zero_raises_undecided() -> None:
    zero = f("sub", f("mul", named("sqrt(2)"), ROOT3), named("sqrt(6)"))
    text = (
        "an enclosure of 4096 bits does not decide the sign of sqrt(2)*sqrt(3) + -1*sqrt(6); "
        "it may be zero."
    )
    for ask in (sign, lambda x: f("max", x, 0), lambda x: f("floor", x), lambda x: f("div", 1, x)):
        with pytest.raises(Undecided) as caught:
            ask(zero)
        assert str(caught.value) == text
        assert caught.value.bits == 4096
    with pytest.raises(Undecided):
        round_exact(zero, Rounding.of("f32"))
    with pytest.raises(UndecidedSign, match=r"sign of exp\(exp\(1000\)\)"):
        f("floor", f("exp", f("exp", 1000)))  # its integer digits are too many


def test_what_is_no_number_is_refused() -> None:
    for call in (lambda: f("add", 1, 0.5), lambda: f("exp", 0.5), lambda: f("max", 0.5, 1)):
        with pytest.raises(TypeError) as refused:
            call()
        assert str(refused.value) == "0.5 is a rational; write Fraction(0.5)."
    with pytest.raises(ValueError, match=r"^NaN has no order\.$"):
        compare(NAN, Fraction(1))


def test_unknown_names_are_refused_with_a_remedy() -> None:
    with pytest.raises(UnknownNameError) as unknown:
        apply("sigmiod", Fraction(1))
    assert str(unknown.value) == "unknown function 'sigmiod'. Did you mean 'sigmoid'?"
    with pytest.raises(UnknownNameError) as unknown:
        named("lg2e")
    assert str(unknown.value) == "unknown constant 'lg2e'. Did you mean 'log2e'?"
