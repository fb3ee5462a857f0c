"""A sum rounded to a wider format first differs by double rounding: a witness shows just that.

The right values are computed with rationals and round-half-even alone; bits come from ml_dtypes.
"""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import lastbit
from lastbit.text import parse_program
from lastbit.verify.terms import Term, sums_of

PRECISION = {"f64": 53, "f32": 24, "f16": 11, "bf16": 8}
DTYPE = {"f64": np.float64, "f32": np.float32, "f16": np.float16, "bf16": ml_dtypes.bfloat16}
WORD = {"f64": np.uint64, "f32": np.uint32, "f16": np.uint16, "bf16": np.uint16}


def rounded(x: Fraction, fmt: str) -> Fraction:
    """Return x rounded half to even, of any exponent."""
    exponent = 0
    while abs(x) >= Fraction(2) ** exponent:
        exponent += 1
    while x and abs(x) < Fraction(2) ** (exponent - 1):
        exponent -= 1
    unit = Fraction(2) ** (exponent - PRECISION[fmt])
    return round(x / unit) * unit  # Python rounds a half to even


def bits(x: Fraction, fmt: str) -> str:
    value = np.asarray(np.float64(float(x)).astype(DTYPE[fmt]))
    assert Fraction(float(value)) == x  # a value of the format: nothing is rounded here
    return f"0x{int(value.view(WORD[fmt])):0{2 * value.itemsize}x}"


def values(witness: lastbit.Witness, name: str) -> list[Fraction]:
    return [Fraction(float.fromhex(text)) for text in witness.inputs[name].hex]


def stepwise(terms: list[Fraction], fmt: str) -> Fraction:
    total = Fraction(0)
    for term in terms:
        total = rounded(total + term, fmt)
    return total


def is_double_rounding(terms: list[Fraction], narrow: str, wide: str) -> bool:
    """Return whether the exact sum rounds otherwise than through the wider format."""
    once = rounded(sum(terms, Fraction(0)), narrow)
    return once != rounded(rounded(sum(terms, Fraction(0)), wide), narrow)


CHAINS = [("bf16", "f32"), ("f16", "f32"), ("f32", "f64")]


@pytest.mark.parametrize(("narrow", "wide"), CHAINS)
@pytest.mark.parametrize("nested", ["left", "right"])
def test_two_additions_with_one_rounding_in_between_left_to_a_wider_format(
    narrow: str, wide: str, nested: str
) -> None:
    def before(a: Any, b: Any, c: Any) -> Any:
        if nested == "left":
            return ((a + b).to(narrow) + c).to(narrow)
        return (a + (b + c).to(narrow)).to(narrow)

    def after(a: Any, b: Any, c: Any) -> Any:
        if nested == "left":
            return ((a + b).to(wide) + c).to(wide).to(narrow)
        return (a + (b + c).to(wide)).to(wide).to(narrow)

    found = lastbit.check(before, after, inputs=dict.fromkeys("abc", f"{narrow}[1]"))
    assert found.change == "rounding"
    assert found.witness is not None
    terms = [value for name in "abc" for value in values(found.witness, name)]
    order = terms if nested == "left" else [terms[1], terms[2], terms[0]]
    assert is_double_rounding(terms, narrow, wide)
    expected = stepwise(order, narrow), rounded(stepwise(order, wide), narrow)
    assert (found.witness.before[0], found.witness.after[0]) == tuple(
        bits(x, narrow) for x in expected
    )
    assert expected[0] != expected[1]


SUMS = [
    ("bf16", "bf16", "f32"), ("f16", "f16", "f32"), ("e4m3fn", "bf16", "f32"),
    ("e5m2", "f16", "f32"), ("e4m3fn", "f16", "f32"), ("f32", "bf16", "f32"),
]  # fmt: skip


@pytest.mark.parametrize(("given", "narrow", "wide"), SUMS)
def test_a_product_with_a_wider_accumulator(given: str, narrow: str, wide: str) -> None:
    found = lastbit.check(
        lambda x, w: lastbit.matmul(x, w, acc=narrow, schedule="seq").to(narrow),
        lambda x, w: lastbit.matmul(x, w, acc=wide, schedule="seq").to(narrow),
        inputs={"x": f"{given}[1, 6]", "w": f"{given}[6, 1]"},
    )
    assert found.change == "rounding"
    assert found.witness is not None
    x, w = (values(found.witness, name) for name in "xw")
    terms = [a * b for a, b in zip(x, w, strict=True)]
    expected = stepwise(terms, narrow), rounded(stepwise(terms, wide), narrow)
    assert (found.witness.before[0], found.witness.after[0]) == tuple(
        bits(v, narrow) for v in expected
    )
    assert is_double_rounding(terms, narrow, wide)


def test_a_product_and_a_residual_in_one_wider_sum() -> None:
    found = lastbit.check(
        lambda x, w, r: (
            lastbit.matmul(x, w, acc="bf16", schedule="seq") + r
        ).to("bf16"),
        lambda x, w, r: (
            lastbit.matmul(x, w, acc="f32", schedule="seq") + r
        ).to("f32").to("bf16"),
        inputs={"x": "bf16[1, 3]", "w": "bf16[3, 1]", "r": "bf16[1, 1]"},
    )  # fmt: skip
    assert found.change == "rounding"


def test_three_values_of_eight_bits_have_an_exact_sum_in_the_wider_format() -> None:
    # Multiples of 2^-9 below 3 * 448: 20 bits, so that binary32 rounds nothing.
    found = lastbit.check(
        lambda a, b, c: ((a + b).to("bf16") + c).to("bf16"),
        lambda a, b, c: ((a + b).to("f32") + c).to("f32").to("bf16"),
        inputs=dict.fromkeys("abc", "e4m3fn[1]"),
    )
    assert found.change == "reassociation"


def sums(text: str) -> list[tuple[Term, ...]]:
    return list(sums_of(parse_program(text).bind({})))


def test_the_terms_of_a_sum_are_seen_through_roundings_and_views() -> None:
    found = sums(
        "x: f32[1, 2]\nw: f32[2, 1]\nr: f32[1, 1]\n"
        "g: bf16 = matmul(x, w) acc f32 seq\ny: bf16 = g / 4 - r\nreturn y\n"
    )
    products = [(("x", i), ("w", i)) for i in range(2)]
    quarter, one = Fraction(1, 4), Fraction(1)
    outer = (*(Term(quarter, p) for p in products), Term(-one, (("r", 0),)))
    assert found == [outer, tuple(Term(one, p) for p in products)]


def test_a_function_of_an_input_is_no_term() -> None:
    assert sums("x: f32[3]\ny: f32 = sum(exp(x), axis=0) acc f32 seq\nreturn y\n") == []


def test_a_product_of_two_sums_is_no_sum_of_products() -> None:
    text = "x: f32[4]\ny: f32 = sum((x + 1) * (x + 2), axis=0) acc f32 seq\nreturn y\n"
    assert sums(text) == []
