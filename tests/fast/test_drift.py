"""Drift counts what differs, at two scales, and against the exact result."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
from drifts import SUM, U32, drift_of, spec
from sites import graph_of

from lastbit.formats import FORMATS, as_exact, floor_log2
from lastbit.interpret import magnitude
from lastbit.interpret.array import ArrayDomain, Tensor, values_of
from lastbit.interpret.evaluate import evaluate
from lastbit.interpret.exact import ExactDomain, exact_array
from lastbit.interpret.magnitude import scale_of
from lastbit.interpret.policy import Policy
from lastbit.records import Bound
from lastbit.verify.draw import draw
from lastbit.verify.drift import measure, ulp_at

# Distances.

GATED = "g: bf16[M]\nu: bf16[M]\nt: {} = silu(g)\nz: bf16 = t * u"


def test_a_lost_rounding_is_measured_to_the_bit() -> None:
    """At g = 0.75 and u = 1.5, z goes from 0x3f43 to 0x3f44; exact is 1.125 / (1 + exp(-0.75))."""
    specs = {"g": spec("constant", "0.75"), "u": spec("constant", "1.5")}
    drift = drift_of(GATED.format("bf16"), GATED.format("real"), specs, M=3)
    assert (drift.format, drift.share, drift.worst_index, drift.output) == ("bf16", 1.0, (0,), "z")
    assert (drift.max_ulp, drift.p99_ulp, drift.mean_ulp, drift.max_ulp_at_scale) == (1, 1, 1, 1)
    assert drift.sampled == (3, 10**6)
    exact = 1.125 / (1 + math.exp(-0.75))
    assert drift.before_error_ulp is not None
    assert drift.after_error_ulp is not None
    assert round(drift.before_error_ulp, 6) == round((exact - 0xC3 / 256) * 2**8, 6)
    assert round(drift.after_error_ulp, 6) == round((0xC4 / 256 - exact) * 2**8, 6)
    assert drift.nearer == "after"
    assert drift.inputs == "g: constant(0.75), u: constant(1.5)"


def test_a_quarter_of_gated_products_differ_without_the_rounding_between() -> None:
    """The share that eager and compiled torch show on an H200 is 27 %."""
    drift = drift_of(GATED.format("bf16"), GATED.format("real"), M=1 << 14)
    assert 0.26 < drift.share < 0.29
    assert (drift.max_ulp, drift.max_ulp_at_scale) == (1, 1)
    assert (drift.inputs, drift.seed) == ("normal(0, 1)", 0)


def test_cancellation_makes_ulp_absurd_and_ulp_at_scale_small() -> None:
    text = "x: bf16[M]\nr: bf16[M]\nw: bf16[M]\nt: {} = x + r\nz: bf16 = t + w"
    drift = drift_of(text.format("bf16"), text.format("real"), M=1 << 14)
    assert drift.max_ulp is not None
    assert drift.max_ulp > 1000
    assert drift.max_ulp_at_scale == 1
    assert drift.bound is not None
    assert (drift.bound.ulp, drift.bound.why) == (None, "cancellation")


def test_equal_graphs_show_no_drift() -> None:
    text = "x: bf16[M, K]\ny: bf16 = sum(x, axis=1) acc f32 seq"
    drift = drift_of(text, text, M=4, K=64)
    assert (drift.share, drift.max_ulp, drift.max_ulp_at_scale) == (0, 0, 0)
    assert (drift.p99_ulp, drift.mean_ulp, drift.worst_index) == (0, 0, None)
    assert drift.nearer == "neither"


def test_an_infinity_on_one_side_is_at_no_distance() -> None:
    """300 * 300 overflows f16; 300 / 300 does not."""
    text = "x: f16[M]\nt: {} = x * 300\nz: f16 = t / 300"
    specs = {"x": spec("constant", "300")}
    drift = drift_of(text.format("f16"), text.format("real"), specs, M=2)
    assert (drift.share, drift.max_ulp, drift.max_ulp_at_scale) == (1, None, None)
    assert drift.worst_index == (0,)


def test_codes_of_a_grid_are_counted() -> None:
    """A reciprocal in bf16 is off by up to 2^-9, and codes have 2^-4 between them."""
    text = "t: bf16[M, K]\ns: f32 = amax(t, axis=-1) / 448\n"
    before = text + "q: e4m3fn = t / s saturate"
    after = text + "i: bf16 = 1 / s\nq: e4m3fn = t * i saturate"
    drift = drift_of(before, after, M=16, K=64)
    assert drift.format == "e4m3fn"
    assert drift.codes_changed == drift.share > 0
    assert drift.bound == Bound(None, None, "a quantization to e4m3fn has no relative bound")
    assert (
        drift_of(text + "p: f32 = t / s", text + "p: f32 = t / s", M=1, K=8).codes_changed is None
    )


def test_of_several_results_the_one_is_reported_that_differs_most() -> None:
    head = "x: bf16[64]\nu: bf16[64]\nt: {} = x * u\n"
    tail = "a: bf16 = x + u\nb: bf16 = t * u\nc: bf16 = t * u\nreturn a, b, c"
    drift = drift_of(head.format("bf16") + tail, head.format("real") + tail)
    assert drift.output == "b"
    same = head.format("real") + tail
    assert drift_of(same, same).output == "a"


def test_results_of_different_formats_are_not_compared() -> None:
    before = graph_of("x: f32[4]\ny: f32 = x / 3")
    after = graph_of("x: f32[4]\ny: bf16 = x / 3")
    assert measure(before, after, {}, 0, 4) is None


def test_the_percentile_is_that_of_all_elements() -> None:
    """Elements 1 ulp apart at 3 of 200 places: the 198th smallest distance is 1."""
    x = "x: f32[200]\ni: int32[200]\n"
    specs = {"x": spec("constant", "1"), "i": spec("integers", "0", "50")}
    after = x + "y: f32 = x + 2 * select(equal(i, 7), 1, 0) / 16777216"
    drift = drift_of(x + "y: f32 = x", after, specs)
    changed = round(drift.share * 200)
    assert changed > 2
    assert drift.p99_ulp == 1
    assert drift.mean_ulp == changed / 200
    assert (
        drift_of(x + "y: f32 = x", after.replace("equal(i, 7)", "less(i, 1)"), specs).p99_ulp == 1
    )


# Sums.


def test_splitting_a_long_sum_drifts_by_few_ulp_at_scale() -> None:
    drift = drift_of(SUM.format("f32", "seq"), SUM.format("f32", "split(4)"), M=8, N=8, K=1024)
    assert drift.share > 0.5
    assert drift.max_ulp_at_scale is not None
    assert drift.max_ulp is not None
    assert 0 < drift.max_ulp_at_scale < 4 < drift.max_ulp
    assert drift.nearer == "after"  # shorter chains
    assert drift.bound is not None
    assert drift.bound.times_sum_abs is not None
    assert 1280 * U32 < drift.bound.times_sum_abs < 1290 * U32  # 1024, and 256 + 4 + ...


def test_a_narrow_store_hides_a_different_sum() -> None:
    drift = drift_of(SUM.format("bf16", "seq"), SUM.format("bf16", "split(4)"), M=8, N=8, K=256)
    assert drift.share < 0.05


def test_a_sum_in_any_order_is_said_to_have_run_in_one() -> None:
    text = "x: f32[2, 64]\ny: f32 = sum(x, axis=1) acc f32 {}"
    drift = drift_of(text.format("seq"), text.format("any_order"))
    assert drift.inputs == (
        "normal(0, 1); a sum in any order was run in one order, drawn with seed 0"
    )


def test_a_chain_of_a_matrix_unit_is_measured() -> None:
    text = "x: bf16[M, K]\nw: bf16[K, N]\ny: f32 = matmul(x, w) acc f32 {}"
    drift = drift_of(text.format("seq"), text.format("fused(16, hopper)"), M=64, N=64, K=128)
    assert 0.5 < drift.share < 1  # each step of 16 is cut once, where seq rounds 16 times


# Scales.


def scale(text: str, **inputs: list[object]) -> np.ndarray:
    graph = graph_of(text)
    arrays = {name: np.array(values, np.float64) for name, values in inputs.items()}
    known: dict[bytes, Tensor] = {}
    evaluate(graph.results, ArrayDomain(arrays), Policy.BITS, known)
    return scale_of(graph.results[0], known)


@pytest.mark.parametrize("stored", [0, 1 << 16])
def test_the_scale_of_a_sum_is_the_sum_of_absolute_terms(
    stored: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(magnitude, "STORED", stored)
    text = "x: f32[2, 3]\nw: f32[3, 1]\ny: bf16 = 2 * matmul(x, w) acc f32 seq"
    found = scale(text, x=[[1, -1, 2], [-3, 0, 1]], w=[[1], [1], [-0.5]])
    assert found.tolist() == [[6.0], [7.0]]


@pytest.mark.parametrize("stored", [0, 1 << 16])
def test_terms_that_are_added_in_blocks_have_the_scale_of_one_sum(
    stored: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(magnitude, "STORED", stored)
    text = """
        x: f32[2, 4]
        w: f32[1, 4]
        p: real = transpose(x * w, 1, 0)
        first: f32 = sum(p[0:2], axis=0) acc f32 seq
        y: f32 = sum(concat(first, p[2:4], axis=0), axis=0) acc f32 seq
    """
    found = scale(text, x=[[1, -1, 2, 3], [0, 1, 0, -1]], w=[[1, 2, 3, 4]])
    assert found.tolist() == [[1.0 + 2 + 6 + 12, 2.0 + 4]]


@pytest.mark.parametrize(
    ("expression", "want"),
    [
        ("x * u", 12.0),  # a chain: the magnitude of the result
        ("x + u - x", 10.0),  # 3 + 4 + 3
        ("(x - u) * (x + u)", 49.0),
        ("(x + u) / (x - u)", 49.0),  # 7 / 1, and the divisor loses a factor 7
        ("maximum(x - u, -u)", 7.0),
        ("abs(x - u)", 7.0),
        ("select(less(x, u), x - u, x)", 7.0),
        ("floor(x - u)", 1.0),
        ("clamp(x - u, -5, 5)", 7.0),
        ("relu(u - x)", 7.0),
        ("(x - u) * (x - u) + less(x, u)", 50.0),
    ],
)
def test_the_scale_is_the_value_if_nothing_cancelled(expression: str, want: float) -> None:
    assert scale(f"x: f32[1]\nu: f32[1]\ny: f32 = {expression}", x=[3], u=[4]).tolist() == [want]


def test_a_function_passes_on_the_scale_of_its_argument_by_its_slope() -> None:
    """Of sqrt(x - u) at 100 - 64 = 36: 6 + (164 - 36) / 12."""
    found = scale("x: f32[1]\nu: f32[1]\ny: f32 = sqrt(x - u)", x=[100], u=[64])
    assert round(found.item(), 6) == round(6 + 128 / 12, 6)


@pytest.mark.parametrize("name", ["f32", "bf16", "e4m3fn", "e8m0", "int8"])
def test_the_ulp_of_an_array_is_that_of_each_element(name: str) -> None:
    fmt = FORMATS[name]
    points = [0.0, 1.0, 1.5, 2.0**-9, 2.0**-140, 447.0, 448.0, 2.0**130, 3.0]
    exponents = [floor_log2(Fraction(p)) if p else fmt.emin for p in points]
    want = [2.0 ** fmt.quantum(min(e, fmt.emax)) for e in exponents]
    assert ulp_at(np.array(points), fmt).tolist() == want


# The exact result.


def test_errors_are_those_against_the_exact_domain() -> None:
    before = graph_of("x: bf16[3, 8]\nz: bf16 = softmax(x) acc f32 seq")
    after = graph_of("x: bf16[3, 8]\nz: bf16 = softmax(x) acc bf16 pairwise(1)")
    drift = measure(before, after, {}, 4, 24)
    assert drift is not None
    x = draw(before.inputs[0], spec("normal", "0", "1"), 4)
    numbers = {"x": exact_array([as_exact(v) for v in x.ravel().tolist()], x.shape)}
    (exact,) = evaluate(before.results, ExactDomain(numbers), Policy.REAL)
    known: dict[bytes, Tensor] = {}
    sides = [
        evaluate(g.results, ArrayDomain({"x": x}), Policy.BITS, known)[0] for g in (before, after)
    ]
    unit = ulp_at(scale_of(before.results[0], known), FORMATS["bf16"])
    for side, found in zip(sides, (drift.before_error_ulp, drift.after_error_ulp), strict=True):
        values = values_of(side)
        errors = [
            float(abs(Fraction(float(values[i])) - exact.array[i].enclose(64)[0])) / unit[i]
            for i in np.ndindex(3, 8)
        ]
        assert found is not None
        assert round(found, 9) == round(sum(errors) / 24, 9)
