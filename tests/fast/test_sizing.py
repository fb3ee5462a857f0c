"""Sizes at which a transform is judged: odd ones too, and constants that stand for sizes."""

from __future__ import annotations

import pytest

from lastbit.change import Change
from lastbit.importers.imported import Imported
from lastbit.importers.integers import wrapped
from lastbit.plan_model import Plan, Span
from lastbit.plan_sizes import with_shrinking_sizes
from lastbit.text import parse_program
from lastbit.verify.sizing import Axis, instances
from lastbit.verify.worst import judge_worst

MEAN = "x: f32[B, 4]\ny: f32 = sum(x, axis=0) / size(B) acc f32 seq\nreturn y\n"
PARTS = "x: f32[B, 4]\nq: f32 = x / size(B)\ny: f32 = sum(q, axis=0) acc f32 seq\nreturn y\n"


def test_a_symbol_with_a_range_is_judged_at_odd_sizes() -> None:
    found = instances({"b": Axis(8, reduced=True, ends=(2, 512))})
    assert {3, 7} <= {one.sizes["b"] for one in found if one.purpose == "small"}


def test_odd_sizes_lie_in_the_range() -> None:
    found = instances({"b": Axis(8, reduced=True, ends=(4, 6))})
    assert {one.sizes["b"] for one in found if one.sizes["b"] % 2} == {5}


@pytest.mark.parametrize(("low", "change"), [(2, Change.ROUNDING), (8, Change.BITWISE)])
def test_an_exact_quotient_speaks_for_its_own_size_only(low: int, change: Change) -> None:
    # 1 / 3 is not exact, and 1 / 8 is.
    program, after = (parse_program(text, "t") for text in (MEAN, PARTS))
    plan = Plan("t", "t", program, after, {"B": Span(low, 8, 8)})
    found, _ = judge_worst(plan, 0)
    assert found.change == change


@pytest.mark.parametrize(
    ("divisor", "symbols"),
    [
        ("64", {"size_4096"}),
        ("'0x1.0p-6'", {"size_4096"}),
        ("63", {"size_4096"}),  # 64 - 1, of an unbiased variance
        ("100", {"size_4096", "size_64"}),
    ],
)
def test_a_constant_that_stands_for_a_size_keeps_it(divisor: str, symbols: set[str]) -> None:
    text = f"x: f32[4096, 64]\ny: f32 = sum(x, axis=1) / {divisor} acc f32 seq\nreturn y\n"
    program = parse_program(text, "t")
    plan = Plan("t", "t", program, imports=(Imported("t", program),))
    assert set(with_shrinking_sizes(plan).symbols) == symbols


def test_what_fits_does_not_wrap_around() -> None:
    assert wrapped("a + b", "i8", (-128, 127)) == "a + b"
    assert wrapped("a + b", "i64", (-(2**64), 2**64)) == "a + b"  # taken to lie below 2**31
    assert wrapped("a * b", "i32", (-(2**62), 2**62)) is None
