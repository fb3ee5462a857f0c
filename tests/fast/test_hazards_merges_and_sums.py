"""Hazards of merges, moments, sums, indices and contractions: found where they are, and cured."""

from __future__ import annotations

import math
from fractions import Fraction
from pathlib import Path

import pytest
from standings import codes, declared, found_in, lint, remedied

from lastbit.rule import RejectedError
from lastbit.run import run_bits, run_graph
from lastbit.text import parse_program

# RED271: maxima of -inf.

MERGE = """
a: f32[1]
b: f32[1]
u: f32[1]
v: f32[1]
m: f32 = maximum(a, b)
p: f32 = exp(a - m)
q: f32 = exp(b - m)
o: f32 = (p * u + q * v) / (p + q)
"""
EMPTY = float("-inf")


def test_two_empty_states_merge_to_nan_and_with_guards_to_zero() -> None:
    before, after = remedied("RED271", MERGE, "p", "q", "o")
    nothing = {"a": EMPTY, "b": EMPTY, "u": 0, "v": 0}
    assert run_bits(before, nothing)["o"] == ("0x7fc00000",)
    assert run_bits(after, nothing)["o"] == ("0x00000000",)
    one = {"a": EMPTY, "b": Fraction(3, 2), "u": 0, "v": 3}
    assert run_bits(before, one) == run_bits(after, one)  # 3, with one empty state


def test_the_remedy_changes_the_domain_only(tmp_path: Path) -> None:
    rest = '[[transform]]\nrule = "maximum-without-guard"\nat = ["p"]\n'
    (step,) = lint(tmp_path, MERGE, rest).steps
    assert step.change == "bitwise"
    assert [(e.kind, e.side, e.inputs) for e in step.domain] == [
        ("nan", "before", "-inf in all inputs")
    ]


def test_a_running_maximum_over_blocks_is_unguarded() -> None:
    text = """
s: f32[2, 8]
m1: f32 = max(s[:, 0:4], axis=-1)
p1: f32 = exp(s[:, 0:4] - m1)
m: f32 = maximum(m1, max(s[:, 4:8], axis=-1))
r: f32 = exp(m1 - m)
p: f32 = exp(s[:, 4:8] - m)
"""
    assert list(found_in("RED271", text)) == ["p1", "r", "p"]
    assert found_in("RED271", text, inputs={"s": declared(-8, 8)}) == {}
    computed = text.replace("s: f32[2, 8]", "x: f32[2, 4]\nw: f32[4, 8]\ns: f32 = matmul(x, w)")
    assert found_in("RED271", computed) == {}  # finite sums


def test_a_mask_makes_the_maximum_of_a_whole_row_unsafe() -> None:
    text = "s: f32[2, 8]\nk: f32[2, 8]\nt: f32 = {}\nm: f32 = max(t)\np: f32 = exp(t - m)\n"
    assert found_in("RED271", text.format("s")) == {}
    assert list(found_in("RED271", text.format("select(k, s, -inf)"))) == ["p"]
    assert found_in("RED271", text.format("select(k, s, -30000)")) == {}
    assert found_in("RED271", text.format("s + k")) == {}


def test_a_padded_row_is_no_row_without_scores() -> None:
    text = """
x: f32[2, 4]
w: f32[4, 8]
t: f32 = matmul(x, w)
s: f32 = concat(t, broadcast(-inf, 2, 1), axis=1)
m: f32 = max(s, axis=-1)
p: f32 = exp(s - m)
"""
    assert found_in("RED271", text) == {}


# RED272: variances by one pass.

ONE_PASS = """
x: f32[4]
mu: f32 = mean(x) acc f32 seq
xx: f32 = x * x
sq: f32 = mean(xx) acc f32 seq
mm: f32 = mu * mu
v: f32 = sq - mm
r: f32 = rsqrt(v)
return v, r
"""


def test_one_pass_over_40000_gives_minus_128_in_place_of_a_variance() -> None:
    before, after = remedied("RED272", ONE_PASS, "v")
    x = {"x": (40000, 40001, 40002, 40003)}
    assert run_graph(before, x)["v"].tolist() == [-128]
    assert run_graph(after, x)["v"].tolist() == [Fraction(5, 4)]
    assert run_bits(before, x)["r"] == ("0x7fc00000",)  # NaN


def test_the_remedy_of_a_variance_is_a_rounding_and_a_domain(tmp_path: Path) -> None:
    rest = '[[transform]]\nrule = "cancelling-variance"\nat = ["v"]\n'
    result = lint(tmp_path, ONE_PASS, rest)
    (step,) = result.steps
    assert step.change == "rounding"
    assert step.domain
    assert ("RED272", 10, "warning") in codes(result)


def test_variances_are_found_over_rows_and_by_factors() -> None:
    text = """
x: bf16[M, K]
s: f32 = sum(x) acc f32 seq
mu: f32 = s / 64
v: f32 = sum(x * x) / 64 - mu * mu acc f32 seq
w: f32 = sum(x * x) * 0.015625 - mu * mu acc f32 seq
z: f32 = sum(x * x) / 63 - mu * mu acc f32 seq
"""
    assert list(found_in("RED272", text, {"M": 2, "K": 64})) == ["v", "w"]


# RED273: partial sums.


def test_narrow_partial_sums_of_256_5_give_1_in_place_of_1_5() -> None:
    text = "x: f32[3]\ny: f32 = sum(x) acc f32 split(3, partials=bf16)"
    before, after = remedied("RED273", text, "y")
    x = {"x": (Fraction("256.5"), -256, 1)}
    assert run_graph(before, x)["y"].tolist() == [1]
    assert run_graph(after, x)["y"].tolist() == [Fraction("1.5")]


def test_partial_products_in_a_narrow_format_are_found() -> None:
    text = """
x: bf16[4, 8]
w: bf16[8, 4]
p: bf16 = matmul(x[:, 0:4], w[0:4, :]) acc f32 seq
q: bf16 = matmul(x[:, 4:8], w[4:8, :]) acc f32 seq
y: bf16 = p + q
"""
    assert list(found_in("RED273", text)) == ["y"]
    assert found_in("RED273", text.replace("q: bf16", "q: f32").replace("p: bf16", "p: f32")) == {}


def test_other_sums_that_are_added_are_no_partial_sums() -> None:
    text = """
x: bf16[4, 8]
w: bf16[8, 4]
a: bf16[8, 4]
p: bf16 = matmul(x, w) acc f32 seq
q: bf16 = matmul(x, a) acc f32 seq
y: bf16 = p + q
"""
    assert found_in("RED273", text) == {}


# RED274: bases.


def test_a_merge_in_the_wrong_base_gives_1_0528805() -> None:
    text = """
a: f64[1]
b: f64[1]
u: f64[1]
v: f64[1]
s: f64 = log2(a)
t: f64 = log2(b)
m: f64 = maximum(s, t)
p: f64 = exp(s - m)
q: f64 = exp(t - m)
o: f64 = (p * u + q * v) / (p + q)
"""
    assert list(found_in("RED274", text)) == ["p", "q"]
    before, after = remedied("RED274", text, "p", "q")
    # a / b = e^2, as log-sum-exps of 3 and 1 give
    given = {"a": Fraction(math.exp(2)), "b": 1, "u": 1, "v": 2}
    wrong, right = (float(run_graph(g, given)["o"][0]) for g in (before, after))
    assert f"{wrong:.7f} {right:.7f}" == "1.0528805 1.1192029"


def test_a_base_is_stated_by_a_logarithm_or_a_factor() -> None:
    merge = "a: f32[1]\nb: f32[1]\nm: f32 = maximum(a, b)\np: f32 = {}\n"
    unstated = found_in("RED274", merge.format("exp(a - m)"))
    assert unstated == {
        "p": "nothing says whether `a` is a logarithm to base e or 2, and it is read as exp"
    }
    assert list(found_in("RED274", merge.format("exp2(a - m)"))) == ["p"]
    for stated in ("exp2((a - m) * log2e)", "exp2(1.4427 * (a - m))", "exp((a - m) * ln2)"):
        assert found_in("RED274", merge.format(stated)) == {}


def test_logarithms_of_two_bases_are_found() -> None:
    text = "a: f32[1]\ni: f32 = log(a)\nj: f32 = log2(a)\np: f32 = exp(i - j)\n"
    with pytest.raises(RejectedError, match="whose base is another"):
        remedied("RED274", text, "p")  # no one base is right
    assert found_in("RED274", text) == {
        "p": "exp of a difference of logarithms to base e and to base 2"
    }


def test_a_softmax_states_its_base() -> None:
    text = "s: f32[2, 4]\nm: f32 = max(s, axis=-1)\np: f32 = exp2(s - m)\n"
    assert found_in("RED274", text) == {}


# DOM531: means.


def test_a_mean_of_2000_times_60_is_infinite_in_f16_and_60_with_the_remedy() -> None:
    text = "x: f16[2000]\nm: f16 = mean(x) acc f16 seq"
    before, after = remedied("DOM531", text, "m")
    assert run_bits(before, {"x": 60}) == {"m": ("0x7c00",)}
    assert run_graph(after, {"x": 60})["m"].tolist() == [60]


def test_a_declared_range_decides_whether_a_mean_overflows() -> None:
    text = "x: f16[2000]\nm: f16 = mean(x) acc f16 seq"
    assert found_in("DOM531", text, inputs={"x": declared(-32, 32)}) == {}
    assert found_in("DOM531", text, inputs={"x": declared(0, 60)}) == {
        "m": "the sum of its mean reaches 1.2e+05 for `x` in [0, 60], and f16 ends at 65504, "
        "so the mean is infinite"
    }


def test_a_mean_in_f32_overflows_only_where_a_range_says_so() -> None:
    text = "x: f32[2000]\nm: f32 = mean(x) acc f32 seq"
    assert found_in("DOM531", text) == {}
    assert list(found_in("DOM531", text, inputs={"x": declared(0, 2.0**120)})) == ["m"]


# CVT431: indices.


def test_position_15962_is_15936_in_bf16_and_has_another_cosine() -> None:
    text = "i: int32[1]\np: bf16 = i\nc: f32 = cos(p)\nreturn p, c"
    before, after = remedied("CVT431", text, "p")
    wrong, right = (run_graph(graph, {"i": 15962}) for graph in (before, after))
    assert (wrong["p"][0], right["p"][0]) == (15936, 15962)
    assert f"{float(wrong['c'][0]):.4f} {float(right['c'][0]):.4f}" == "-0.2680 -0.9080"


@pytest.mark.parametrize(
    ("source", "narrow", "limit", "count"),
    [
        ("int32", "bf16", None, 1),
        ("int32", "bf16", 256, 0),
        ("int32", "bf16", 257, 1),
        ("int32", "f16", 2048, 0),
        ("int32", "f32", None, 0),
        ("int32", "f32", 2**24 + 1, 1),
        ("int8", "bf16", None, 0),
        ("f32", "bf16", 15962, 0),  # no integer format
    ],
)
def test_an_index_needs_as_many_digits_as_its_range(
    source: str, narrow: str, limit: int | None, count: int
) -> None:
    inputs = {} if limit is None else {"i": declared(0, limit, "integers")}
    found = found_in("CVT431", f"i: {source}[4]\np: {narrow} = i", inputs=inputs)
    assert len(found) == count
    if count and limit:
        assert f"for `i` in [0, {float(limit):g}]" in found["p"]


def test_the_index_of_a_maximum_in_bf16_is_found_beyond_256_elements() -> None:
    text = "x: f32[{}]\ni: bf16 = argmax_first(x)\n"
    assert found_in("CVT431", text.format(256)) == {}
    assert list(found_in("CVT431", text.format(300))) == ["i"]


# FUS131: contractions.

X, S = 1134139801600, Fraction(float.fromhex("0x1.715476p-3"))  # 0.18033688


def test_three_contractions_of_one_line_give_1_inf_and_0() -> None:
    text = """
x: f32[1]
s: f32[1]
m: f32 = x * s
a: f32 = exp(m - round(x * s, f32))
l: f32 = exp(x * s - m)
r: f32 = exp(m - x * s)
return a, l, r
"""
    assert list(found_in("FUS131", text)) == ["l", "r"]
    bits = run_bits(parse_program(text).bind({}), {"x": X, "s": S})
    assert bits == {"a": ("0x3f800000",), "l": ("0x7f800000",), "r": ("0x00000000",)}


@pytest.mark.parametrize(
    ("text", "count"),
    [
        ("x: f32[4]\nt: f32 = x * 0.3\nm: f32 = max(t)\np: f32 = exp(x * 0.3 - m)", 1),
        ("x: f32[4]\nm: f32 = max(x * 0.3)\nd: f32 = x * 0.3 - m\np: f32 = exp(d)", 1),
        ("x: f32[4]\nt: f32 = x * 0.3\nm: f32 = max(t)\np: f32 = exp(t - m)", 0),
        ("x: f32[4]\nt: f32 = x * 0.25\nm: f32 = max(t)\np: f32 = exp(x * 0.25 - m)", 0),
        ("x: bf16[4]\ns: bf16[1]\nm: f32 = x * s\np: f32 = exp(x * s - m)", 0),  # exact in f32
        ("x: f32[4]\ns: f32[1]\nh: f32 = x * s\nl: f32 = x * s - h", 0),  # the rounding error
    ],
)
def test_a_product_is_unsafe_beside_its_rounding_where_it_is_one(text: str, count: int) -> None:
    assert len(found_in("FUS131", text)) == count
