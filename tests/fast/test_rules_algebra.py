"""Rules on norms, folds and the algebra of products show the numbers that others compute.

The oracles know nothing of lastbit: numpy and ml_dtypes for roundings, math for functions.
"""

import dataclasses
import math
from collections.abc import Mapping

import ml_dtypes
import numpy as np
import pytest
from sites import outcome_on, site_of

from lastbit.examples import applied, bits, check_example, given
from lastbit.patterns.attention import TWO_BLOCKS
from lastbit.registry import find_rule
from lastbit.rule import Example, RejectedError, Value

BF16 = ml_dtypes.bfloat16
SEED = 0  # of every draw below


def f32(x: object) -> np.ndarray:
    """Return values rounded to f32."""
    return np.asarray(x, np.float32)


def bf16(x: object) -> np.ndarray:
    """Return values rounded to bf16, held in f32; `x` is f32, so they are rounded once."""
    x = np.asarray(x)
    assert x.dtype == np.float32
    return x.astype(BF16).astype(np.float32)


def hexes(x: np.ndarray) -> tuple[str, ...]:
    """Return the bits of f32 or bf16 values."""
    width = {4: (np.uint32, 8), 2: (np.uint16, 4)}[x.dtype.itemsize]
    return tuple(f"0x{int(v):0{width[1]}x}" for v in x.view(width[0]).ravel())


def on(code: str, at: str, parameters: Mapping[str, Value] | None = None, **inputs: object):
    """Return the bits of a value of the rule's own graph, before and after the rule."""
    rule = find_rule(code)
    example = Example("breaks", inputs, parameters or {}, at=(at,))
    region = applied(rule, example)
    values = given(code, region, inputs)
    return tuple(bits(graph, values)[0][at] for graph in (region.before, region.after))


# Norms


def test_the_two_orders_of_a_norm_weight_are_those_of_ml_dtypes() -> None:
    n, w = f32(1 + 5 * 2**-11), f32(1.75)  # 1.0024414
    before, after = on("FUS114", "y", x=float(n), w=1.75, v=1)
    rounded_first, weighted_first = (bf16(n) * w).astype(BF16), (n * w).astype(BF16)
    assert (float(rounded_first), float(weighted_first)) == (1.75, 1.7578125)
    assert (before[0], after[0]) == hexes(np.array([rounded_first, weighted_first]))


def test_a_quarter_of_a_normal_row_depends_on_the_order_of_the_norm_weight() -> None:
    rng = np.random.default_rng(SEED)
    n, w = f32(rng.normal(size=10_000)), bf16(f32(rng.normal(size=10_000)))
    differ = (bf16(n) * w).astype(BF16) != (n * w).astype(BF16)
    assert 0.24 < differ.mean() < 0.28


def test_a_wide_norm_weight_is_refused_and_would_change_the_codes() -> None:
    rule = find_rule("FUS115")
    mixed = Example("breaks", {"x": 3, "w": 1, "wide": "0x1.0bp+0", "v": 1, "s": 1}, {})
    mixed = dataclasses.replace(mixed, at=("d",))
    with pytest.raises(RejectedError) as caught:
        applied(rule, mixed)
    assert str(caught.value) == (
        "FUS115 fuse-norm-quantize at `d`: requirement `the weight has the format of the "
        "activations` fails for f32 and bf16."
    )
    outcome = check_example(dataclasses.replace(rule, requires=()), mixed)
    assert not outcome.passed
    assert outcome.message == "the bits differ: rounding, where the rule claims bitwise."


# Functions


def test_the_two_gelus_differ_by_the_published_maximum() -> None:
    before, after = on("FUS123", "y", x=-2.703125)
    erf = -2.703125 * math.erfc(2.703125 / math.sqrt(2)) / 2
    assert (before, after) == (hexes(f32([erf])), hexes(f32([_gelu_tanh(-2.703125)])))
    grid = np.linspace(-6, 6, 12_001)
    gaps = [abs(x * math.erfc(-x / math.sqrt(2)) / 2 - _gelu_tanh(x)) for x in grid]
    assert 4.732e-4 < max(gaps) < 4.733e-4
    assert abs(grid[int(np.argmax(gaps))]) == 2.699


def test_253_of_1922_bf16_numbers_tell_the_two_gelus_apart() -> None:
    codes = np.arange(0x10000, dtype=np.uint16)
    every = codes[codes & 0x7F80 != 0x7F80].view(BF16).astype(np.float64)  # the finite ones
    x = every[(np.abs(every) >= 2**-5) & (np.abs(every) <= 6)]
    erf = f32([v * math.erfc(-v / math.sqrt(2)) / 2 for v in x]).astype(BF16)
    tanh = f32([_gelu_tanh(v) for v in x]).astype(BF16)
    assert (len(x), int((erf != tanh).sum())) == (1922, 253)


def _gelu_tanh(x: float) -> float:
    # (1 + tanh t) / 2 is 1 / (1 + exp(-2 t)), which does not cancel for t < 0
    return x / (1 + math.exp(-2 * math.sqrt(2 / math.pi) * (x + 0.044715 * x**3)))


@pytest.mark.parametrize("x", [-17.0, 1.5, 17.25])
def test_a_power_of_two_for_an_exponential_has_the_bits_of_numpy(x: float) -> None:
    before, after = on("FUS122", "y", x=x)
    product = f32(x) * f32(math.log2(math.e))
    assert (before, after) == (hexes(f32([math.exp(x)])), hexes(f32([np.exp2(float(product))])))


def test_a_power_of_two_for_an_exponential_costs_nearly_15_ulp_below_18() -> None:
    x = f32(np.random.default_rng(SEED).uniform(-18, 18, 100_000))
    exact = np.exp(x.astype(np.float64))
    found = np.exp2((x * f32(math.log2(math.e))).astype(np.float64))
    ulps = np.abs(found - exact) / np.exp2(np.floor(np.log2(exact)) - 23)
    assert 14 < ulps.max() < 15


def test_a_reciprocal_root_has_the_bits_of_numpy() -> None:
    before, after = on("FUS121", "y", x=3, v=3)
    rsqrt = f32(1 / np.sqrt(np.float64(3)))
    assert before == hexes(f32([3]) / np.sqrt(f32([3]))) * 4
    assert after == hexes(f32([3]) * rsqrt) * 4
    assert before != after


# Algebra of products


def test_a_merged_weight_loses_small_changes() -> None:
    rng = np.random.default_rng(SEED)
    w = bf16(f32(rng.normal(size=100_000)))
    kept = bf16(w + f32(rng.normal(0, 1e-3, 100_000))) == w
    assert 0.77 < kept.mean() < 0.79
    before, after = on("FUS120", "y", x=129, w=1, a=1, b="0x1p-7")
    assert bf16(f32(1 + 2**-8)) == 1
    assert (before, after) == (
        hexes(f32([129 + 129 * 2**-8]).astype(BF16)),
        hexes(f32([129]).astype(BF16)),
    )


@pytest.mark.parametrize(
    ("line", "b"), [("c + d", "0x1p-8"), ("d + c", "0x1p-8"), ("0.5 * d + c", "0x1p-7")]
)
def test_a_low_rank_branch_is_found_in_any_order(line: str, b: str) -> None:
    graph = f"""
        x: bf16[1, 1]
        w: bf16[1, 1]
        a: bf16[1, 1]
        b: bf16[1, 1]
        h: bf16 = matmul(x, a) acc f32 seq
        d: f32 = matmul(h, b) acc f32 seq
        c: f32 = matmul(x, w) acc f32 seq
        y: bf16 = {line}
    """
    outcome = outcome_on("FUS120", graph, ("y",), x=129, w=1, a=1, b=b)
    assert (outcome.passed, str(outcome.change)) == (True, "rounding")


def test_a_branch_that_reads_another_input_is_no_low_rank_branch() -> None:
    graph = """
        x: bf16[1, 2]
        t: bf16[1, 2]
        w: bf16[2, 1]
        a: bf16[2, 1]
        b: bf16[1, 1]
        h: bf16 = matmul(t, a) acc f32 seq
        y: bf16 = matmul(x, w) + matmul(h, b) acc f32 seq
    """
    with pytest.raises(RejectedError, match=r"x W \+ s \(x A\) B` fails"):
        find_rule("FUS120").apply(site_of(graph, "y", format="bf16"))


def test_distributing_changes_45_of_100_triples() -> None:
    x, a, b = f32(np.random.default_rng(SEED).normal(size=(3, 100_000)))
    assert 0.44 < (x * (a + b) != x * a + x * b).mean() < 0.47
    before, after = on("FUS140", "y", x=3, a=1, b="0x1p-24")
    one, tiny = f32(1), f32(2**-24)
    assert before == hexes(f32([3 * (one + tiny)]))
    assert after == hexes(f32([3]) * one + f32([3]) * tiny)


def test_a_sum_on_the_left_is_distributed_too() -> None:
    graph = """
        a: f32[1, 1]
        b: f32[1, 1]
        w: f32[1, 1]
        x: f32 = a + b
        y: f32 = matmul(x, w) acc f32 seq
    """
    outcome = outcome_on("FUS140", graph, ("y",), a=1, b="0x1p-24", w=3)
    assert outcome.after == {"y": ("0x40400001",)}


def test_a_batch_norm_without_the_bias_is_off_by_its_scaled_bias() -> None:
    exact = (3 * 5 + 2 - 1) * 4 + 7
    given_ = {"x": 3, "w": 5, "b": 2, "mean": 1, "k": 4, "shift": 7}
    before, after = on("FUS143", "y", **given_)
    assert (before, after) == (hexes(f32([exact])), hexes(f32([exact - 2 * 4])))
    assert on("FUS142", "y", **given_) == (before, before)


def test_a_batch_norm_of_a_product_without_bias_is_folded() -> None:
    graph = """
        x: f32[1, 1]
        w: f32[1, 1]
        k: f32[1]
        c: f32 = matmul(x, w) acc f32 seq
        y: f32 = k + (c - k) * k
    """
    outcome = outcome_on("FUS142", graph, ("y",), x=3, w=5, k="0x1.000002p+0")
    k = f32(1 + 2**-23)
    after = f32(3) * (5 * k) + f32(float(k) - float(k) ** 2)
    assert outcome.after == {"y": hexes(f32([after]))}


def test_a_norm_by_rows_is_not_folded_into_columns() -> None:
    graph = """
        x: f32[2, 1]
        w: f32[1, 3]
        k: f32[2, 1]
        c: f32 = matmul(x, w) acc f32 seq
        y: f32 = (c - k) * k + k
    """
    with pytest.raises(RejectedError, match="for the columns of a matrix product"):
        find_rule("FUS142").apply(site_of(graph, "y", format="f32"))


@pytest.mark.parametrize(("size", "code"), [(64, "FUS145"), (128, "FUS144")])
def test_a_scale_moves_to_the_queries_for_64_heads_only(size: int, code: str) -> None:
    rng = np.random.default_rng(SEED)
    q, k = (bf16(f32(rng.normal(size=(4, size)))) for _ in range(2))
    scale = f32(1 / math.sqrt(size))

    def dots(left: np.ndarray) -> np.ndarray:
        acc = np.zeros((4, 4), np.float32)
        for i in range(size):
            acc += left[:, i : i + 1] * k[:, i]  # products of two bf16 are exact in f32
        return acc

    moved, plain = dots(bf16(q * scale)), dots(q) * scale
    assert np.array_equal(moved, plain) == (code == "FUS145")
    divisor = 8 if size == 64 else "sqrt(128)"
    graph = f"""
        q: bf16[4, {size}]
        k: bf16[4, {size}]
        s: f32 = matmul(q, transpose(k)) / {divisor} acc f32 seq
    """
    outcome = outcome_on(code, graph, ("s",), q=q.tolist(), k=k.tolist())
    assert outcome.after["s"] == hexes(moved)
    if size == 64:
        assert outcome.before["s"] == hexes(plain)


def test_the_power_of_two_is_refused_for_128() -> None:
    graph = """
        q: bf16[1, 128]
        k: bf16[1, 128]
        s: f32 = matmul(q, transpose(k)) / sqrt(128) acc f32 seq
    """
    with pytest.raises(RejectedError) as caught:
        find_rule("FUS145").apply(site_of(graph, "s"))
    assert str(caught.value) == (
        "FUS145 scale-queries-by-power-of-two at `s`: requirement `the scale is a power of two` "
        "fails."
    )


def test_a_left_operand_that_is_not_rounded_cannot_be_scaled() -> None:
    graph = """
        x: f32[1, 1]
        k: f32[1, 1]
        q: real = x * 3
        s: f32 = matmul(q, k) * 0.1 acc f32 seq
    """
    with pytest.raises(RejectedError, match="requirement `the left operand is rounded` fails"):
        find_rule("FUS144").apply(site_of(graph, "s"))


# Attention and saved values


def test_the_probabilities_of_an_online_softmax_are_rounded_in_each_block() -> None:
    inputs = {"s": [[0, 1, 1.5, 0.5]], "v": [[1], [2], [3], [4]]}
    rule = dataclasses.replace(find_rule("FUS118"), graph=TWO_BLOCKS, sizes={"N": 1})
    outcome = check_example(rule, Example("breaks", inputs, {}))
    assert (outcome.passed, str(outcome.change)) == (True, "rounding")
    s, v = f32(inputs["s"][0]), f32([1, 2, 3, 4])
    p1, p2 = (f32(np.exp(part.astype(np.float64))) for part in (s[:2] - 1, s[2:] - f32(1.5)))
    r = f32(np.exp(np.float64(-0.5)))
    sums = [(np.add.reduce(p), np.add.reduce(bf16(p) * w)) for p, w in ((p1, v[:2]), (p2, v[2:]))]
    (l1, u1), (l2, u2) = sums
    assert outcome.after["o"] == hexes(f32([(r * u1 + u2) / (r * l1 + l2)]))


def test_normalised_probabilities_are_rounded_before_they_weigh() -> None:
    graph = """
        s: f32[1, 2]
        v: f32[2, 1]
        p: f32 = softmax(s) acc f32 seq
        o: f32 = matmul(p, v) acc f32 seq
    """
    outcome = outcome_on("FUS118", graph, ("o",), s=[[0, 1]], v=[[1], [0]])
    assert outcome.after == {"o": hexes(bf16(f32([1 / (1 + math.e)])))}
    assert outcome.before == {"o": hexes(f32([1 / (1 + math.e)]))}


def test_a_region_under_autocast_keeps_what_lies_inside_it() -> None:
    graph = """
        x: f32[1]
        t: f32 = x * x
        y: f32 = t + x
    """
    site = site_of(graph, ("t", "y"), format="bf16")
    edits = find_rule("FUS124").apply(site)
    assert list(edits) == ["t", "y"]
    whole = outcome_on("FUS124", graph, ("t", "y"), x="0x1.01p+0")
    assert whole.after == {"y": ("0x40000000",)}  # 1 * 1 + 1
    assert whole.before == {"y": hexes(f32([(1 + 2**-8) ** 2 + 1 + 2**-8]))}


# Conversions


def test_the_constant_of_128_heads_is_that_of_ml_dtypes() -> None:
    before, after = on("CVT404", "y", x=1)
    assert float(bf16(f32(math.sqrt(128)))) == 11.3125
    assert (before, after) == (hexes(f32([1 / math.sqrt(128)])), hexes(f32([1 / 11.3125])))


def test_position_15962_has_the_angle_of_15936() -> None:
    assert float(bf16(f32(15962))) == 15936
    cosines = f32([math.cos(15962)]), f32([math.cos(15936)])
    assert [f"{x[0]:.4f}" for x in cosines] == ["-0.9080", "-0.2680"]
    assert on("CVT405", "c", p=15962, f=1) == tuple(map(hexes, cosines))


def test_tf32_operands_are_those_of_a_bit_trick() -> None:
    x = f32(np.random.default_rng(SEED).normal(size=(64, 1)))
    x[:2, 0] = 1024.5, -1024.5
    narrow = ((x.view(np.uint32) + 0x1000) & 0xFFFFE000).view(np.float32)
    assert narrow[:2, 0].tolist() == [1025, -1025]
    before, after = on("CVT406", "y", a=x.tolist(), b=[[1]], h=[[1]])
    assert (before, after) == (hexes(x), hexes(narrow))
    even = on("CVT406", "y", {"mode": "rne"}, a=1024.5, b=1, h=1)[1]
    assert even == hexes(f32([1024]))


def test_the_reciprocal_of_a_third_is_exact() -> None:
    graph = """
        x: f32[1]
        y: f32 = x / (1/3)
    """
    outcome = outcome_on("CVT407", graph, ("y",), x="0x1.555556p-1")
    assert outcome.message == "the bits are the same."
    with pytest.raises(RejectedError) as caught:
        find_rule("CVT407").apply(site_of("x: f32[1]\ny: f32 = x / 10", "y", format="f32"))
    assert str(caught.value) == (
        "CVT407 multiply-by-exact-reciprocal at `y`: requirement `the format holds the "
        "reciprocal` fails for c=10, f32."
    )


# Sites that look alike


def test_a_weight_that_is_no_value_of_a_format_is_refused() -> None:
    graph = """
        x: bf16[1]
        w: real = x * 3
        p: bf16 = w * x
        y: bf16 = p + x
    """
    with pytest.raises(RejectedError, match="requirement `the weight is rounded` fails"):
        find_rule("FUS117").apply(site_of(graph, "w", format="f32"))


def test_products_of_other_operands_are_not_joined() -> None:
    graph = """
        x: bf16[1, 2]
        t: bf16[1, 2]
        w: bf16[2, 1]
        a: bf16 = matmul(x, w) acc f32 seq
        b: bf16 = matmul(t, w) acc f32 seq
        y: bf16 = a + b
    """
    with pytest.raises(RejectedError, match="several products of one left operand"):
        find_rule("FUS127").apply(site_of(graph, ("a", "b")))


def test_a_value_is_no_common_subexpression_of_itself() -> None:
    graph = "x: f32[1]\ny: f32 = x * 2"
    for at in (("y", "y"), ("y",)):
        with pytest.raises(RejectedError, match="two values of one definition"):
            find_rule("FUS125").apply(site_of(graph, at))
