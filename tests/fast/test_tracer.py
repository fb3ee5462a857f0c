"""A function of recording values means what its text form would; nothing rounds by itself."""

from __future__ import annotations

import math
from decimal import Decimal
from fractions import Fraction

import ml_dtypes
import numpy as np
import pytest
from recorded import SIZES, SPECS, node

import lastbit
from lastbit.formats import FORMATS
from lastbit.graph import Const, Map, Node
from lastbit.ops import COMPOSITES, ELEMENTWISE, NAMED_REALS, OPERATORS
from lastbit.text import parse_program
from lastbit.tracing.op import keywords_of

HEAD = "".join(f"{name}: {spec}\n" for name, spec in SPECS.items())


def text(line: str) -> Node:
    """Return the node of `y` in a program in text form."""
    return parse_program(f"{HEAD}{line}\n").bind(SIZES).values["y"]


# Operators: every row of the table, as a function and as a method

ARGUMENTS = {
    "matmul": ("x", "w"),
    "rms_norm": ("x", "s", "1"),
    "reshape": ("x", "8", "1"),
    "broadcast": ("s", "3", "2", "4"),
    "transpose": ("x", "1", "0"),
    "concat": ("x", "s", "x"),
    "size": ("3",),
    "round": ("x", "e4m3fn"),
}


def arguments(name: str) -> tuple[str, ...]:
    """Return arguments for an operator; one that is not listed takes x, s, x ..."""
    if name in ARGUMENTS:
        return ARGUMENTS[name]
    arity = ELEMENTWISE[name][0] if name in ELEMENTWISE else COMPOSITES[name].arity
    given = ("x", "s", "x", "s", "s")[: arity or 1]
    return (*given, "2") if name in COMPOSITES and COMPOSITES[name].integers else given


def called(name: str, keywords=None, method=False):
    """Return a function that calls an operator on what `arguments` names."""

    def function(x, w, s, k):
        values = {"x": x, "w": w, "s": s}
        given = [values.get(arg, arg) for arg in arguments(name)]
        given = [int(arg) if str(arg).isdigit() else arg for arg in given]
        if method:
            return getattr(given[0], name)(*given[1:], **(keywords or {}))
        return getattr(lastbit, name)(*given, **(keywords or {}))

    return function


@pytest.mark.parametrize("name", OPERATORS)
def test_an_operator_is_that_of_the_text_form(name: str) -> None:
    line = f"y: real = {name}({', '.join(arguments(name))})"
    assert node(called(name)).key == text(line).key
    assert getattr(lastbit, name).__doc__
    assert name in dir(lastbit)


@pytest.mark.parametrize("name", [name for name in OPERATORS if name != "size"])
def test_an_operator_is_a_method_too(name: str) -> None:
    assert node(called(name, method=True)).key == node(called(name)).key


@pytest.mark.parametrize(
    ("name", "word"),
    [(n, w) for n in COMPOSITES for w in keywords_of(n) if w not in ("acc", "schedule")],
)
def test_a_keyword_of_an_operator_is_that_of_the_text_form(name: str, word: str) -> None:
    line = f"y: real = {name}({', '.join(arguments(name))}, {word}=1)"
    made = node(called(name, {word: 1}))
    assert made.key == text(line).key


@pytest.mark.parametrize("name", [n for n in COMPOSITES if "acc" in keywords_of(n)])
def test_a_sum_takes_an_accumulator_and_a_tree(name: str) -> None:
    made = node(called(name, {"acc": "f16", "schedule": "split(2)"}))
    line = f"y: real = {name}({', '.join(arguments(name))})"
    assert made.key == text(f"{line} acc f16 split(2)").key
    assert made.key != text(line).key


def test_the_operators_with_a_sum_are_found_in_the_table() -> None:
    found = {name for name in COMPOSITES if "acc" in keywords_of(name)}
    assert {"sum", "mean", "matmul", "softmax", "rms_norm"} <= found
    assert not found & {"max", "min", "amax", "reshape", "concat", "topk"}


@pytest.mark.parametrize("short", FORMATS)
def test_every_format_makes_inputs_and_rounds(short: str) -> None:
    made = getattr(lastbit, short)("M", 64)
    assert str(made) == f"{short}[M, 64]"
    assert getattr(lastbit, FORMATS[short].name)("M", 64) == made
    assert node(lambda x: x.to(short)).key == text(f"y: {short} = x").key
    assert node(lambda x: x.to(getattr(lastbit, short))).key == text(f"y: {short} = x").key


@pytest.mark.parametrize("name", NAMED_REALS)
def test_a_named_real_is_a_value(name: str) -> None:
    assert node(lambda x: x * getattr(lastbit, name)).key == text(f"y: real = x * {name}").key


EXPRESSIONS = {
    "x + s": lambda x, s: x + s,
    "x - s * x": lambda x, s: x - s * x,
    "(x - s) * x": lambda x, s: (x - s) * x,
    "x - (s - x)": lambda x, s: x - (s - x),
    "x / (s / x)": lambda x, s: x / (s / x),
    "-(x + s)": lambda x, s: -(x + s),
    "-x": lambda x: -x,
    "x ": lambda x: +x,
    "abs(x)": lambda x: abs(x),
    "x ** 3": lambda x: x**3,
    "(-x) ** 2": lambda x: (-x) ** 2,
    "exp2(x)": lambda x: 2**x,
    "x < s": lambda x, s: x < s,
    "s < x": lambda x, s: x > s,
    "x <= s": lambda x, s: x <= s,
    "s <= x": lambda x, s: x >= s,
    "x == s": lambda x, s: x == s,
    "1 - (x == s)": lambda x, s: x != s,
    "3 < x": lambda x: x > 3,
    "1 - x": lambda x: 1 - x,
    "2 / x": lambda x: 2 / x,
    "x * -3": lambda x: x * -3,
    "x * 0.1": lambda x: x * Fraction(1, 10),
    "x * 0.10": lambda x: x * Decimal("0.1"),
    "x * (1 / 3)": lambda x: x * Fraction(1, 3),
    "x + inf": lambda x: x + math.inf,
    "x + -0.0": lambda x: x + -0.0,
    "matmul(x, w)": lambda x, w: x @ w,
    "transpose(x)": lambda x: x.T,
    "x[0:1]": lambda x: x[0:1],
    "x[:, 1:]": lambda x: x[:, 1:],
    "x[:, 1:] ": lambda x: x[..., 1:],
    "x[1:, ::2]": lambda x: x[1:, ::2],
    "x[:, -3:-1]": lambda x: x[:, -3:-1],
    "x[:, ::-1]": lambda x: x[:, ::-1],
    "reshape(x, 8, 1)": lambda x: x.reshape((8, 1)),
    "reshape(x, 2, 2, 2)": lambda x: x.reshape(2, -1, 2),
    "reshape(k, M, 4, 16)": lambda k: k.reshape("M", 4, -1),
    "reshape(k, M * 64)": lambda k: k.reshape(-1),
    "k[:, 0:32]": lambda k: k[:, : k.shape[-1] // 2],
    "k[:, M:2*M]": lambda k: k[:, "M":"2*M"],
    "sum(k) / 64": lambda k: k.sum() / k.shape[-1],
    "sum(k, axis=0) / size(M)": lambda k: k.sum(axis=0) / k.shape[0],
    "k * (2 / size(M + 1))": lambda k: k * (2.0 / (k.shape[0] + 1)),
    "concat(x, s, axis=1)": lambda x, s: lastbit.concat([x, s], axis=1),
    "opaque('gather', x, s)": lambda x, s: lastbit.opaque("gather", x, s),
    "select(x < 0, s, x)": lambda x, s: lastbit.select(x < 0, s, x),
}


@pytest.mark.parametrize(("line", "function"), EXPRESSIONS.items(), ids=EXPRESSIONS)
def test_python_means(line: str, function) -> None:
    assert node(function).key == text(f"y: real = {line}").key


def test_a_float_literal_is_its_exact_binary_value() -> None:
    made = node(lambda x: x * 0.1)
    assert isinstance(made, Map)
    constant = made.xs[1]
    assert isinstance(constant, Const)
    assert constant.value == Fraction(0.1)
    assert constant.value != Fraction(1, 10)
    assert made.key == text("y: real = x * '0x1.999999999999ap-4'").key


@pytest.mark.parametrize(
    ("number", "exact"),
    [
        (np.float32(0.1), Fraction(13421773, 2**27)),
        (np.float16(0.1), Fraction(1638, 2**14)),
        (ml_dtypes.bfloat16(0.1), Fraction(205, 2**11)),
        (np.longdouble(1) + np.longdouble(2) ** -60, 1 + Fraction(1, 2**60)),
        (np.int8(-3), Fraction(-3)),
        (np.array(0.5), Fraction(1, 2)),
        (2**70 + 1, Fraction(2**70 + 1)),
    ],
    ids=["float32", "float16", "bfloat16", "longdouble", "int8", "0-d", "int"],
)
def test_a_number_stands_for_exactly_itself_on_either_side(number, exact: Fraction) -> None:
    if isinstance(number, np.longdouble) and Fraction(*number.as_integer_ratio()) == 1:
        pytest.skip("this longdouble is no wider than a double")
    for function in (lambda x: x * number, lambda x: number * x):
        made = node(function)
        assert isinstance(made, Map)
        assert [c.value for c in made.xs if isinstance(c, Const)] == [exact]


def test_only_to_rounds_and_says_how() -> None:
    made = node(lambda x: (x * x).to("e4m3fn", overflow="saturate", mode="rtz"))
    assert made.key == text("y: e4m3fn = x * x saturate rtz").key
    flushed = node(lambda x: x.to("f16", subnormals="flush"))
    assert flushed.key == text("y: f16 = x flush").key
    assert node(lambda x: lastbit.round(x * x, "f16")).key == text("y: f16 = x * x").key
