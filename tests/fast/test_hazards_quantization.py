"""Hazards of quantization: scales, policies and shards that lose values, and what cures them."""

from __future__ import annotations

import re
from fractions import Fraction
from pathlib import Path

import pytest
from standings import SCALED, declared, found_in, lint, remedied

from lastbit.plan_model import Distribution
from lastbit.rule import RejectedError
from lastbit.run import run_bits, run_graph
from lastbit.text import parse_program

# QNT351: scales of 0.


def test_a_floor_must_be_a_number_of_its_format() -> None:
    scale = "maximum(amax(x, axis=-1) / 448, 1e-12)"
    text = f"x: bf16[M, K]\ns: {{}} = {scale}\nq: e4m3fn = x / s saturate"
    assert found_in("QNT351", text.format("f32"), {"M": 2, "K": 2}) == {}
    assert found_in("QNT351", text.format("f16"), {"M": 2, "K": 2}) == {
        "q": "the scale `s` is 0 for a row of zeros, for its floor is below the least f16, "
        "and 0 / 0 is NaN in all of that row"
    }


def test_a_floor_of_the_maximum_may_be_lost_in_the_scale() -> None:
    text = "x: f16[2, 2]\ns: f16 = maximum(amax(x, axis=-1), {}) / 448\nq: e4m3fn = x / s saturate"
    assert found_in("QNT351", text.format("1e-3")) == {}
    assert list(found_in("QNT351", text.format("1e-6"))) == ["q"]  # 1e-6/448 rounds to 0


def test_a_declared_range_without_zero_needs_no_floor() -> None:
    text = "x: bf16[2, 2]\ns: f32 = amax(x, axis=-1) / 448\nq: e4m3fn = x / s saturate"
    assert found_in("QNT351", text, inputs={"x": declared(1, 8)}) == {}
    assert list(found_in("QNT351", text, inputs={"x": declared(-1, 8)})) == ["q"]


@pytest.mark.parametrize(
    "scale",
    [
        "select(equal(m, 0), 1, m / 448)",
        "select(less_equal(m, 0), 1, m / 448)",
        "select(0 < m, m / 448, 1)",
        "m / 448 + select(equal(m, 0), 1, 0)",
        "select(amax(x) < 1e-30, 1, amax(x) / 448)",
    ],
)
def test_a_scale_that_is_not_zero_for_zeros_is_safe_in_any_form(scale: str) -> None:
    text = (
        f"x: bf16[2, 2]\nm: f32 = amax(x, axis=-1)\ns: {{}} = {scale}\nq: e4m3fn = x / s saturate"
    )
    assert found_in("QNT351", text.format("f32")) == {}
    graph = parse_program(text.format("f32")).bind({})
    assert run_bits(graph, {"x": 0})["q"] == ("0x00",) * 4


def test_a_scale_that_is_zero_for_small_numbers_alone_is_found() -> None:
    # 2^-24 / 448 is below half the least f16.
    text = """
x: f16[1, 1]
m: f32 = amax(x, axis=-1)
s: f16 = select(equal(m, 0), 1, m / 448)
q: e4m3fn = x / s saturate
"""
    assert found_in("QNT351", text) == {
        "q": "the scale `s` is 0 for a tensor whose largest magnitude is 6e-08, and quotients are "
        "infinite there"
    }
    before, after = remedied("QNT351", text, "q")
    assert run_bits(before, {"x": Fraction(1, 2**24)}) == {"q": ("0x7e",)}  # of infinity
    assert run_bits(after, {"x": Fraction(1, 2**24)}) == {"q": ("0x00",)}
    assert found_in("QNT351", text, inputs={"x": declared(1, 8)}) == {}


def test_an_e8m0_scale_of_zeros_is_nan_or_the_least_power() -> None:
    text = "x: bf16[2, 2]\ns: e8m0 = amax(x, axis=-1) / 448 rup {}\nq: e4m3fn = x / s saturate"
    assert found_in("QNT351", text.format("")) == {
        "q": "the scale `s` is NaN for a row of zeros, for e8m0 has no 0, and so is all of it"
    }
    assert found_in("QNT351", text.format("saturate")) == {}


def test_a_divisor_that_no_maximum_makes_is_no_scale() -> None:
    text = "x: bf16[2, 2]\ns: f32[2, 1]\nq: e4m3fn = x / s saturate"
    assert found_in("QNT351", text) == {}


def test_a_row_of_zeros_stays_zero_with_the_remedy() -> None:
    text = SCALED.replace("M", "1").replace("K", "2") + "y: f32 = q * s"
    before, after = remedied("QNT351", text, "q")
    assert run_bits(before, {"x": 0}) == {"y": ("0x7fc00000",) * 2}
    assert run_bits(after, {"x": 0}) == {"y": ("0x00000000",) * 2}


# DOM532: overflow policies.


@pytest.mark.parametrize(
    ("value", "saturate", "to_nan"),
    [
        ("448", "0x7e", "0x7e"),
        ("464", "0x7e", "0x7e"),  # a tie, to even
        ("464.5", "0x7e", "0x7f"),
        ("480", "0x7e", "0x7f"),
        ("1000", "0x7e", "0x7f"),
    ],
)
def test_two_policies_of_e4m3fn(value: str, saturate: str, to_nan: str) -> None:
    text = "x: f32[1]\ns: e4m3fn = x saturate\nn: e4m3fn = x to_nan"
    assert found_in("DOM532", text) == {}
    bits = run_bits(parse_program(text).bind({}), {"x": Fraction(value)})
    assert bits == {"s": (saturate,), "n": (to_nan,)}


@pytest.mark.parametrize("fmt", ["e4m3fn", "e5m2", "e4m3fnuz", "e5m2fnuz"])
def test_a_policy_is_missing_in_each_format_that_has_several(fmt: str) -> None:
    text = f"x: f32[1]\nq: {fmt} = x\nr: {fmt} = x saturate\np: f32 = round(x, {fmt}, saturate)"
    assert list(found_in("DOM532", text)) == ["q"]


@pytest.mark.parametrize("fmt", ["int8", "e2m1", "e3m2", "e8m0", "bf16"])
def test_other_formats_need_no_policy(fmt: str) -> None:
    assert found_in("DOM532", f"x: f32[1]\nq: {fmt} = x") == {}


def test_a_range_that_cannot_overflow_needs_no_policy() -> None:
    text = "x: f32[1]\nq: e4m3fn = x * 2"
    assert found_in("DOM532", text, inputs={"x": declared(-232, 232)}) == {}
    assert list(found_in("DOM532", text, inputs={"x": declared(-233, 232)})) == ["q"]


def test_the_policy_inside_an_expression_is_its_own() -> None:
    text = "x: f32[1]\nq: e4m3fn = round(x, e5m2) / 2 saturate\np: f32 = round(x, e5m2, to_inf) / 2"
    assert list(found_in("DOM532", text)) == ["q"]


# QNT352: maxima before a rounding.


def test_the_largest_quotient_of_an_unrounded_maximum_is_448_58() -> None:
    text = """
x: f32[1, 1]
t: bf16 = x
s: f32 = amax(x, axis=-1) / 448
q: e4m3fn = t / s saturate
y: f32 = t / s
z: f32 = q * s
"""
    (message,) = found_in("QNT352", text).values()
    assert message.endswith("the largest quotient 449.75, which does not overflow")
    given = {"x": Fraction("3.01171875")}
    graph = parse_program(text).bind({})
    assert round(float(run_graph(graph, given, ["y"])["y"].item()), 2) == 448.58
    assert run_graph(graph, given, ["q"])["q"].tolist() == [[448]]


def test_the_remedy_of_an_unrounded_maximum_is_a_rounding(tmp_path: Path) -> None:
    text = (
        "x: f32[M, K]\nt: bf16 = x\ns: f32 = amax(x, axis=-1) / 448\nq: e4m3fn = t / s saturate\n"
    )
    rest = '[[transform]]\nrule = "amax-of-unrounded"\nat = ["q"]\n'
    (step,) = lint(tmp_path, text + "y: f32 = q * s\n", rest).steps
    assert step.change == "rounding"
    assert "overflow" not in [entry.kind for entry in step.domain if entry.side == "before"]


def test_a_coarse_rounding_may_overflow_a_fine_grid() -> None:
    text = "x: f32[1, 2]\nt: {} = x\ns: f32 = amax(x, axis=-1) / 127\nq: int8 = t / s\n"
    (fine,) = found_in("QNT352", text.format("f16")).values()
    (coarse,) = found_in("QNT352", text.format("e4m3fn")).values()
    assert fine.endswith("does not overflow")
    assert coarse.endswith("overflows int8")


# QNT353: scales that clip.

E8M0 = "x: f32[1, 1]\ns: {} = {}\nq: e4m3fn = x / s saturate\ny: f32 = q * s\n"


def test_a_scale_to_the_nearest_power_of_two_takes_28_9_percent_of_630() -> None:
    text = E8M0.format("e8m0", "amax(x, axis=-1) / 448")
    before, after = remedied("QNT353", text, "q")
    assert run_graph(before, {"x": 630})["y"].tolist() == [[448]]
    assert run_graph(after, {"x": 630})["y"].tolist() == [[640]]
    assert f"{1 - 448 / 630:.1%}" == "28.9%"


@pytest.mark.parametrize(
    ("format_", "scale", "lost"),
    [
        ("e8m0", "amax(x, axis=-1) / 448", "33.3 %"),
        ("e8m0", "amax(x, axis=-1) / 448 rtz", "50 %"),
        ("f32", "round(amax(x, axis=-1), e8m0, rdn) / 256", "12.5 %"),
        ("f32", "exp2(floor(log2(amax(x, axis=-1))) - 8)", "12.5 %"),
        ("e8m0", "amax(x, axis=-1) / 448 rup", None),
        ("e8m0", "amax(x, axis=-1) / 256", None),  # 4/3 of 256 is below 448
        ("f32", "exp2(floor(log2(amax(x, axis=-1))) - 7)", None),
        ("bf16", "amax(x, axis=-1) / 448", None),
        ("f32", "amax(x, axis=-1) / 448", None),
    ],
)
def test_a_scale_clips_if_its_rounding_takes_more_than_the_grid_gives_back(
    format_: str, scale: str, lost: str | None
) -> None:
    messages = list(found_in("QNT353", E8M0.format(format_, scale)).values())
    assert [message.split("lose up to ")[1] for message in messages] == ([lost] if lost else [])


# QNT354: shards.

SHARDS = """
a: bf16[64, 64]
b: bf16[64, 64]
w: bf16 = concat(a, b, axis=1)
s: f32 = amax(amax(w, axis=0), axis=1) / 448
q: e4m3fn = w / s saturate
y: f32 = q * s
"""


def normal(spread: str) -> Distribution:
    return Distribution("normal", (Fraction(0), Fraction(spread)))


@pytest.mark.parametrize(
    ("ratio", "count"), [("1e-2", 0), ("1e-3", 0), ("1e-4", 1), ("1e-5", 1), ("1e-6", 1)]
)
def test_shards_of_one_scale_are_lost_below_a_ratio_of_1e_4(ratio: str, count: int) -> None:
    inputs = {"a": normal("1"), "b": normal(ratio)}
    messages = found_in("QNT354", SHARDS, inputs=inputs)
    assert len(messages) == count
    if count:
        assert f"`b` are about {float(ratio):.2g} " in messages["q"]


@pytest.mark.parametrize(("ratio", "count"), [("1e-2", 0), ("1e-3", 0), ("5e-5", 1), ("1e-6", 1)])
def test_shards_with_declared_ranges_say_them(ratio: str, count: int) -> None:
    limit = Fraction(ratio)
    inputs = {"a": declared(-1, 1), "b": Distribution("uniform", (-limit, limit))}
    messages = found_in("QNT354", SHARDS, inputs=inputs)
    assert len(messages) == count
    if count:
        assert f"for `a` in [-1, 1], `b` in [-{float(limit):g}, {float(limit):g}]" in messages["q"]


def test_shards_of_unknown_size_are_no_hazard() -> None:
    assert found_in("QNT354", SHARDS) == {}
    assert found_in("QNT354", SHARDS, inputs={"b": normal("1e-6")}) == {}


def test_shards_along_the_other_axis_of_a_row_scale_have_their_own() -> None:
    text = SHARDS.replace("axis=1)\ns", "axis=0)\ns").replace(
        "amax(amax(w, axis=0), axis=1)", "amax(w, axis=1)"
    )
    assert found_in("QNT354", text, inputs={"a": normal("1"), "b": normal("1e-6")}) == {}


@pytest.mark.parametrize(
    ("text", "need"),
    [
        (
            SHARDS.replace("q * s", "matmul(q, c) * s") + "c: bf16[128, 2]",
            "every reader multiplies by the scale along the axis of the parts",
        ),
        (
            SHARDS.replace("w / s", "w / (amax(amax(w, axis=0), axis=1) / 448)"),
            "the scale is a named value",
        ),
    ],
)
def test_shards_get_own_scales_only_where_their_readers_can_use_them(text: str, need: str) -> None:
    inputs = {"a": normal("1"), "b": normal("1e-6")}
    assert list(found_in("QNT354", text, inputs=inputs)) == ["q"]
    with pytest.raises(RejectedError, match=re.escape(need)):
        remedied("QNT354", text, "q")
