"""Every trap of the field that is known, as a test of its own: the kind of change is right.

The sizes are small; `TRUE` marks cases that stand for a true size of a reduced axis.
"""

from __future__ import annotations

import pytest

from lastbit.change import Change
from lastbit.text import parse_program
from lastbit.verify.classify import Case, Verdict, classify
from lastbit.verify.domain import misbehaviours
from lastbit.verify.region import Region


def region(before: str, after: str, **sizes: int) -> Region:
    return Region(parse_program(before).bind(sizes), parse_program(after).bind(sizes))


def judged(before: str, after: str, *sizes: dict[str, int]) -> Verdict:
    cases = [Case(size, region(before, after, **size)) for size in sizes or ({},)]
    return classify(cases, cases)


def domain(before: str, after: str, **sizes: int) -> list[tuple[str, str]]:
    found = misbehaviours([region(before, after, **sizes)], Change.BITWISE)
    return [(entry.kind, entry.side) for entry in found]


ABC = "a: bf16[2]\nb: bf16[2]\nc: bf16[2]\n"


def test_a_fused_multiply_add_of_bf16_operands_keeps_bits_but_not_below_the_normal_range() -> None:
    before, after = ABC + "p: f32 = a * b\ny: f32 = p + c", ABC + "y: f32 = a * b + c"
    assert judged(before, after).change == Change.BITWISE
    product = "a: bf16[1]\nb: bf16[1]\np: f32 = a * b\ny: f32 = p * 256"  # p is subnormal
    fused = "a: bf16[1]\nb: bf16[1]\ny: f32 = a * b * 256"
    assert judged(product, fused).change == Change.BITWISE
    assert domain(product, fused) == [("flush", "before")]


def test_flushing_subnormals_changes_the_domain_and_nothing_else() -> None:
    before, after = "x: f32[2]\ny: f32 = x * 0.3", "x: f32[2]\ny: f32 = x * 0.3 flush"
    assert judged(before, after).change == Change.BITWISE
    assert domain(before, after) == [("flush", "after")]


def test_int8_saturates_on_one_side_of_a_negation_only() -> None:
    before, after = (
        "x: bf16[2]\ny: int8 = -x saturate",
        "x: bf16[2]\nq: int8 = x saturate\ny: int8 = -q",
    )
    verdict = judged(before, after)
    assert verdict.change == Change.MATH
    assert verdict.witness is not None


def test_x_minus_x_is_zero_but_not_at_infinity() -> None:
    before, after = "x: f32[2]\ny: f32 = x - x", "x: f32[2]\ny: f32 = 0 * x + 0"
    assert judged(before, "x: f32[2]\ny: f32[2] = broadcast(0, 2)").change == Change.BITWISE
    assert ("nan", "before") in domain(before, "x: f32[2]\ny: f32 = broadcast(0, 2)")
    assert judged(before, after).change == Change.BITWISE


def test_x_plus_zero_is_x_but_not_at_minus_zero() -> None:
    before, after = "x: f32[2]\ny: f32 = x + 0", "x: f32[2]\ny: f32 = x * 1"
    assert judged(before, after).change == Change.BITWISE
    assert domain(before, after) == [("signed-zero", "after")]


def test_a_step_of_a_matrix_unit_does_not_see_that_terms_cancel() -> None:
    inputs = "p: bf16[1]\nq: bf16[1]\nc: bf16[1]\n"
    all_four = (
        inputs + "y: f32 = sum(concat(p, q, c, -c) * concat(p, q, c, c)) acc f32 fused(16, hopper)"
    )
    two = inputs + "y: f32 = sum(concat(p, q) * concat(p, q)) acc f32 fused(16, hopper)"
    verdict = judged(all_four, two)
    assert (verdict.change, verdict.by) == (Change.REASSOCIATION, "sampled")
    assert verdict.witness is not None


SUM = "x: bf16[M, K]\nw: bf16[K, 2]\ny: f32 = matmul(x, w) acc f32 "


def test_a_level_in_bf16_is_a_change_of_rounding() -> None:
    verdict = judged(SUM + "seq", SUM + "split(3, inner=seq(acc=bf16))", {"M": 1, "K": 6})
    assert verdict.change == Change.ROUNDING


def test_schedules_that_agree_on_few_elements_differ_on_more() -> None:
    assert judged(SUM + "seq", SUM + "pairwise(8)", {"M": 2, "K": 8}).change == Change.BITWISE
    verdict = judged(SUM + "seq", SUM + "pairwise(8)", {"M": 2, "K": 8}, {"M": 1, "K": 12})
    assert verdict.change == Change.REASSOCIATION
    true = [
        Case({"K": 8}, region(SUM + "seq", SUM + "pairwise(8)", M=2, K=8)),
        Case({"K": 4096}, region(SUM + "seq", SUM + "pairwise(8)", M=1, K=4096), true=True),
    ]
    witness = [Case({"K": 12}, region(SUM + "seq", SUM + "pairwise(8)", M=1, K=12))]
    assert classify(true, witness).change == Change.REASSOCIATION


def online(blocks: int, merged: int) -> str:
    """Return an online softmax over single scores whose maximum is forgotten after `merged`."""
    lines = ["s: f32[1, 4]", "v: f32[4, 1]", "m0: f32 = s[:, 0:1]", "l0: f32 = s[:, 0:1] * 0 + 1"]
    lines.append("u0: f32 = v[0:1, :]")
    for i in range(1, blocks):
        j = i - 1
        lines.append(f"m{i}: f32 = maximum(m{j}, s[:, {i}:{i + 1}])")
        old = f"m{j}" if i < merged else f"m{i}"
        lines.append(f"r{i}: f32 = exp({old} - m{i})")
        lines.append(f"p{i}: f32 = exp(s[:, {i}:{i + 1}] - m{i})")
        lines.append(f"l{i}: f32 = r{i} * l{j} + p{i}")
        lines.append(f"u{i}: f32 = r{i} * u{j} + p{i} * v[{i}:{i + 1}, :]")
    lines.append(f"o: f32 = u{blocks - 1} / l{blocks - 1}")
    lines.append("return o")
    return "\n".join(lines)


def test_a_merge_that_goes_wrong_from_the_third_block_only_is_found() -> None:
    right, wrong = online(4, 4), online(4, 3)
    assert judged(online(2, 4), online(2, 3)).change == Change.BITWISE
    verdict = judged(right, wrong)
    assert verdict.change == Change.MATH
    assert verdict.witness is not None


def test_a_masked_tail_counts_for_nothing() -> None:
    plain = "x: bf16[2, 5]\ny: f32 = sum(x) acc f32 seq"
    padded = "x: bf16[2, 5]\ny: f32 = sum(concat(x, broadcast(0, 2, 3))) acc f32 seq"
    assert judged(plain, padded).change == Change.BITWISE
    masked = "x: f32[2, 5]\nm: f32 = max(x)\ny: f32 = sum(exp(x - m)) acc f32 seq"
    tail = (
        "x: f32[2, 5]\nz: f32 = concat(x, broadcast(-inf, 2, 3))\n"
        "m: f32 = max(z)\ny: f32 = sum(exp(z - m)) acc f32 seq"
    )
    assert judged(masked, tail).change == Change.BITWISE
    unmasked = tail.replace("broadcast(-inf, 2, 3)", "broadcast(0, 2, 3)")
    assert judged(masked, unmasked).change == Change.MATH


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("exp(exp(x) * exp(z))", "exp(exp(x + z))"),
        ("exp2(x * log2e)", "exp(x)"),
        ("abs(x * z)", "abs(x) * abs(z)"),
        ("maximum(x, -x)", "abs(x)"),
        ("amax(2 * x)", "2 * amax(x)"),
        ("amax(3 * x)", "3 * amax(x)"),
        ("sqrt(x * x)", "abs(x)"),
        ("exp(log(x) + log(z))", "x * z"),
        ("(x + z) - z", "x"),
        ("silu(x)", "x / (1 + exp(-x))"),
        ("tanh(x)", "(exp(x) - exp(-x)) / (exp(x) + exp(-x))"),
        ("rsqrt(x * x + 1)", "1 / sqrt(1 + x * x)"),
    ],
)
def test_one_function_written_in_two_ways_is_the_same(before: str, after: str) -> None:
    inputs = "x: f32[2, 3]\nz: f32[2, 3]\n"
    verdict = judged(inputs + f"y: f32 = {before}", inputs + f"y: f32 = {after}")
    assert verdict.change == Change.BITWISE


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("silu(x)", "silu(x) + x / 100"),
        ("gelu(x)", "gelu_tanh(x)"),
        ("maximum(x, z)", "maximum(x, z) + maximum(x, 0)"),
        ("abs(x)", "x"),
        ("amax(x)", "max(x)"),
        ("select(x == z, 0, 1)", "1 + 0 * x"),
        ("x < z", "x <= z"),
        ("1 / select(x == 0, 2, x)", "1 / select(x == 0, 4, x)"),
    ],
)
def test_two_functions_are_told_apart_with_a_witness(before: str, after: str) -> None:
    inputs = "x: f32[2, 3]\nz: f32[2, 3]\n"
    verdict = judged(inputs + f"y: f32 = {before}", inputs + f"y: f32 = {after}")
    assert verdict.change == Change.MATH
    assert verdict.witness is not None
    assert verdict.witness.before != verdict.witness.after


def test_a_prefix_scale_is_a_change_of_grid_by_sampling() -> None:
    head = "x: bf16[1, 4]\n"
    row = "s: f32 = amax(x) / 448\nq: e4m3fn = x / s saturate\ny: f32 = sum(q) * s acc f32 seq"
    prefix = (
        "s0: f32 = amax(x[:, 0:2]) / 448\nq0: e4m3fn = x[:, 0:2] / s0 saturate\n"
        "s1: f32 = amax(x) / 448\nq1: e4m3fn = x[:, 2:4] / s1 saturate\n"
        "y: f32 = sum(concat(q0 * s0, q1 * s1)) acc f32 seq\nreturn y"
    )
    verdict = judged(head + row, head + prefix)
    assert (verdict.change, verdict.by) == (Change.GRID, "sampled")


def test_a_frozen_scale_clips_and_so_changes_the_function() -> None:
    head = "x: bf16[1, 4]\n"
    row = "s: f32 = amax(x) / 448\nq: e4m3fn = x / s saturate\ny: f32 = sum(q) * s acc f32 seq"
    frozen = row.replace("amax(x)", "amax(x[:, 0:2])")
    assert judged(head + row, head + frozen).change == Change.MATH


def test_a_sum_of_nothing_is_zero_and_a_maximum_of_nothing_minus_infinity() -> None:
    head = "x: f32[2, 4]\n"
    before = head + "y: f32 = sum(x[:, 0:0]) acc f32 seq\nz: f32 = exp(max(x[:, 2:2]))"
    after = head + "y: f32 = sum(x[:, 4:4]) acc f32 pairwise\nz: f32 = exp(max(x[:, 1:1])) + 0"
    assert judged(before, after).change == Change.BITWISE


@pytest.mark.parametrize(
    ("before", "after"),
    [("abs(x)", "x"), ("select(x == 0, 1, x)", "x"), ("x < 0", "x <= 0"), ("abs(x)", "-x")],
)
@pytest.mark.parametrize("name", ["a", "b", "h", "q", "x", "z"])
def test_one_element_is_enough_to_see_a_sign(before: str, after: str, name: str) -> None:
    text = f"{name}: f32[1]\ny: f32 = "
    pair = [text + side.replace("x", name) for side in (before, after)]
    assert judged(*pair).change != Change.BITWISE
