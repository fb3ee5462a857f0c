"""Drift counts what differs, at two scales, against the exact result, and within its bound."""

from __future__ import annotations

import json
import math
import pathlib
from collections.abc import Mapping
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lastbit.formats import FORMATS, as_exact, floor_log2
from lastbit.graph import Graph, Input
from lastbit.interpret import magnitude
from lastbit.interpret.array import ArrayDomain, ArrayLimitError, Tensor, values_of
from lastbit.interpret.evaluate import evaluate
from lastbit.interpret.exact import ExactDomain, exact_array
from lastbit.interpret.magnitude import scale_of
from lastbit.interpret.policy import Policy
from lastbit.plan_model import DataFile, Distribution
from lastbit.records import Bound, Drift
from lastbit.text import parse_program
from lastbit.verify.bounds import bound_of
from lastbit.verify.draw import DrawError, draw
from lastbit.verify.drift import measure, ulp_at

U32, U16 = 2.0**-24, 2.0**-8  # unit roundoffs of f32 and bf16


def graph_of(text: str, **sizes: int) -> Graph:
    return parse_program(text).bind(sizes)


def spec(kind: str, *numbers: str, within: tuple[str, str] | None = None) -> Distribution:
    parameters = tuple(Fraction(number) for number in numbers)
    return Distribution(kind, parameters, within and (Fraction(within[0]), Fraction(within[1])))


def drift_of(
    before: str,
    after: str,
    specs: Mapping[str, Distribution | DataFile] | None = None,
    **sizes: int,
) -> Drift:
    found = measure(graph_of(before, **sizes), graph_of(after, **sizes), specs or {}, 0, 10**6)
    assert found is not None
    return found


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

SUM = "x: f32[M, K]\nw: f32[K, N]\ny: {} = matmul(x, w) acc f32 {}"


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


def test_what_the_array_domain_cannot_run_is_not_measured() -> None:
    text = "x: bf16[M, K]\nw: bf16[K, N]\ny: f32 = matmul(x, w) acc f32 {}"
    with pytest.raises(ArrayLimitError):
        drift_of(text.format("seq"), text.format("fused(16, hopper)"), M=64, N=64, K=128)


# Inputs.


def test_a_draw_depends_on_the_seed_and_the_name_only() -> None:
    x = Input("x", FORMATS["f32"], shape=(5,))
    first = draw(x, spec("normal", "0", "1"), 7)
    assert first.tolist() == draw(x, spec("normal", "0", "1"), 7).tolist()
    others = [draw(x, spec("normal", "0", "1"), 8)]
    others.append(draw(Input("y", FORMATS["f32"], shape=(5,)), spec("normal", "0", "1"), 7))
    assert all(first.tolist() != other.tolist() for other in others)


@pytest.mark.parametrize(
    ("given", "low", "high", "distinct"),
    [
        (spec("uniform", "-2", "3"), -2, 3, 900),
        (spec("constant", "1/4"), 0.25, 0.25, 1),
        (spec("integers", "-1", "2"), -1, 2, 4),
        (spec("normal", "0", "10", within=("-1/2", "1/2")), -0.5, 0.5, 20),
    ],
)
def test_distributions_give_what_they_say(
    given: Distribution, low: float, high: float, distinct: int
) -> None:
    x = draw(Input("x", FORMATS["f32"], shape=(1000,)), given, 0)
    assert (x.min() >= low, x.max() <= high) == (True, True)
    assert len(set(x.tolist())) >= distinct
    assert {float(np.float32(value)) for value in x} == set(x.tolist())
    if given.kind == "integers":
        assert set(x.tolist()) == {-1.0, 0.0, 1.0, 2.0}


def test_a_normal_distribution_has_its_mean_and_deviation() -> None:
    x = draw(Input("x", FORMATS["f32"], shape=(10_000,)), spec("normal", "3", "1/2"), 0)
    assert 2.98 < x.mean() < 3.02
    assert 0.49 < x.std() < 0.51


def test_inputs_beyond_their_format_saturate() -> None:
    x = draw(Input("x", FORMATS["e4m3fn"], shape=(2,)), spec("constant", "1000"), 0)
    assert x.tolist() == [448.0, 448.0]


def safetensors(
    path: pathlib.Path, name: str, dtype: str, shape: list[int], content: bytes
) -> None:
    entry = {"dtype": dtype, "shape": shape, "data_offsets": [0, len(content)]}
    header = json.dumps({"__metadata__": {}, name: entry}).encode()
    path.write_bytes(len(header).to_bytes(8, "little") + header + content)


def test_inputs_come_from_a_file_the_first_rows_where_fewer_are_sampled(
    tmp_path: pathlib.Path,
) -> None:
    path = tmp_path / "x.npy"
    np.save(path, np.array([[2**24, 1, 1], [1, 1, 1]], np.float32))
    sums = [f"x: f32[1, 3]\ny: f32 = sum(x) acc f32 {s}" for s in ("seq", "tree((0, (1, 2)))")]
    drift = drift_of(sums[0], sums[1], {"x": DataFile(path, "x.npy")})
    assert (drift.max_ulp, drift.inputs) == (1.0, "x.npy")  # 2^24 and 2^24 + 2
    assert (drift.before_error_ulp, drift.after_error_ulp) == (1.0, 0.0)


@pytest.mark.parametrize(
    ("dtype", "fmt", "content", "want"),
    [
        ("F32", "f32", np.array([1.5, -2], "<f4").tobytes(), [1.5, -2.0]),
        ("BF16", "bf16", bytes.fromhex("c03f00c0"), [1.5, -2.0]),
        ("F8_E4M3", "e4m3fn", bytes.fromhex("7ec0"), [448.0, -2.0]),
        ("I8", "int8", bytes.fromhex("7f80"), [127.0, -128.0]),
    ],
)
def test_safetensors_are_read(
    dtype: str, fmt: str, content: bytes, want: list[float], tmp_path: pathlib.Path
) -> None:
    path = tmp_path / "x.safetensors"
    safetensors(path, "x", dtype, [2], content)
    node = Input("x", FORMATS[fmt], shape=(2,))
    assert draw(node, DataFile(path, "x.safetensors"), 0).tolist() == want


def test_a_file_that_does_not_fit_is_refused(tmp_path: pathlib.Path) -> None:
    npy, tensors = tmp_path / "x.npy", tmp_path / "x.safetensors"

    def message(path: pathlib.Path, fmt: str = "bf16", shape: tuple[int, ...] = (2,)) -> str:
        with pytest.raises(DrawError) as caught:
            draw(Input("x", FORMATS[fmt], shape=shape), DataFile(path, path.name), 0)
        return str(caught.value)

    np.save(npy, np.array([1, 0.1], np.float32))
    assert message(npy) == "`x` in x.npy holds 0.10000000149011612, which is no bf16"
    assert message(npy, shape=(3,)) == "`x` has the shape [2] in x.npy, not [3]"
    assert message(npy, shape=(2, 1)) == "`x` has the shape [2] in x.npy, not [2, 1]"
    np.save(npy, np.array(["a", "b"]))
    assert message(npy) == "x.npy cannot be read: its elements are <U1, no numbers"
    safetensors(tensors, "w", "F32", [2], bytes(8))
    assert message(tensors) == "x.safetensors has no tensor 'x'. Allowed: w."
    safetensors(tensors, "x", "F32", [3], bytes(8))
    assert message(tensors) == "x.safetensors cannot be read: 'x' has 2 elements for [3]"
    safetensors(tensors, "x", "C64", [2], bytes(8))
    allowed = "Did you mean 'F64'?"
    assert message(tensors) == f"x.safetensors cannot be read: its elements are C64. {allowed}"
    tensors.write_bytes(b"\xff" * 8)
    assert message(tensors) == f"x.safetensors cannot be read: its header has {2**64 - 1} bytes"


def test_an_unknown_distribution_is_refused() -> None:
    with pytest.raises(DrawError) as caught:
        draw(Input("x", FORMATS["f32"], shape=(2,)), spec("cauchy", "0"), 0)
    assert str(caught.value) == "`x` has the unknown distribution 'cauchy'"


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


# Bounds.

POSITIVE = {"x": (Fraction(0), Fraction(8))}


def bound(text: str, output: str = "y", **ranges: tuple[Fraction, Fraction]) -> Bound:
    node = graph_of(text).values[output]
    fmt = FORMATS[text.split(f"{output}: ")[1].split()[0]]
    return bound_of(node, node, fmt, ranges)


@pytest.mark.parametrize(
    ("text", "roundings"),
    [
        ("y: f32 = x * 2", 1 * U32),
        ("t: bf16 = x * x\ny: bf16 = t * t", 3 * U16),
        ("y: f32 = sum(x, axis=1) acc f32 seq", 64 * U32),  # Round(0 + leaf) is one
        ("y: f32 = sum(x, axis=1) acc f32 pairwise(1)", 7 * U32),
        ("y: f32 = sum(x, axis=1) acc f32 split(4)", (16 + 4) * U32),
        ("y: bf16 = sum(x, axis=1) acc f32 lanes(8)", (8 + 8) * U32 + U16),
        ("y: f32 = sum(x, axis=1) acc f32 promote(16, f32)", (16 + 4) * U32),
        ("y: f32 = sum(x, axis=1) acc f32 any_order", 64 * U32),
        ("y: f32 = sum(x * x, axis=1) acc f32 fused(16, hopper)", 4 * (17 * 2.0**-25 + 2.0**-23)),
        ("y: f32 = sum(x, axis=1) acc f32 seq rtz", (64 + 2) * U32),  # less than one ulp, not half
        ("y: f32 = silu(x)", U32),
        ("y: f32 = sum(x, axis=1)", U32),
    ],
)
def test_a_bound_counts_the_roundings_of_the_longest_way(text: str, roundings: float) -> None:
    found = bound(f"x: f32[2, 64]\n{text}").times_sum_abs
    each = roundings / (1 - roundings)
    assert found is not None
    assert 2 * each <= found <= 2 * each * 1.0001


def test_a_bound_in_ulp_needs_terms_of_one_sign() -> None:
    text = "x: f32[2, 64]\ny: f32 = sum(x, axis=1) acc f32 seq"
    assert bound(text) == Bound(bound(text).times_sum_abs, None, "cancellation")
    found = bound(text, **POSITIVE)
    assert found.why == "all terms have one sign"
    assert found.ulp is not None
    assert 128 <= found.ulp <= 128.01
    squares = bound("x: f32[2, 64]\ny: f32 = sum(x * x, axis=1) acc f32 seq")
    assert squares.ulp == found.ulp
    root = bound("x: f32[2, 64]\ny: f32 = x * rsqrt(mean(x * x, axis=1) + 1) acc f32 seq")
    assert root.why == "all terms have one sign"


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("t: f32 = x * 3\ny: f32 = exp(t)", "none is derived through `exp` of a rounded value"),
        (
            "t: f32 = x * 3\ny: f32 = 1 / (t - 1)",
            "none is derived through `div` of a rounded value",
        ),
        (
            "t: f32 = x * 3\ny: f32 = clamp(x, t, 1)",
            "none is derived through `clamp` to rounded limits",
        ),
        ("q: int8 = x * 3\ny: f32 = q * 2", "a quantization to int8 has no relative bound"),
        ("y: bf16 = sum(x, axis=1) acc bf16 seq", "so many roundings may lose every digit"),
    ],
)
def test_where_no_bound_is_derived_the_reason_is_given(text: str, why: str) -> None:
    assert bound(f"x: f32[2, 200]\n{text}") == Bound(None, None, why)


def test_two_real_functions_have_no_bound() -> None:
    drift = drift_of("x: f32[9]\ny: f32 = x + 1", "x: f32[9]\ny: f32 = x + 1.001")
    assert drift.bound == Bound(None, None, "the two sides are not known to be one real function")


def test_other_terms_have_no_bound() -> None:
    """(x + u) (x - u) = x^2 - u^2, whose terms are smaller than (|x| + |u|)^2."""
    x = "x: f32[9]\nu: f32[9]\n"
    drift = drift_of(x + "y: f32 = x * x - u * u", x + "y: f32 = (x - u) * (x + u)")
    assert drift.bound == Bound(None, None, "the two sides add different terms")


@settings(derandomize=True, max_examples=40, deadline=None, database=None)
@given(
    schedules=st.lists(
        st.sampled_from(("seq", "pairwise(2)", "lanes(4)", "split(3)", "seq(acc=f16)")),
        min_size=2,
        max_size=2,
    ),
    store=st.sampled_from(("f32", "bf16")),
    seed=st.integers(0, 1000),
)
def test_no_difference_exceeds_its_bound(schedules: list[str], store: str, seed: int) -> None:
    graphs = [graph_of(SUM.format(store, s), M=2, N=3, K=40) for s in schedules]
    found = measure(graphs[0], graphs[1], {}, seed, 6)
    assert found is not None
    assert found.bound is not None
    assert found.bound.times_sum_abs is not None
    arrays = {node.name: draw(node, spec("normal", "0", "1"), seed) for node in graphs[0].inputs}
    known: dict[bytes, Tensor] = {}
    a, b = (evaluate(g.results, ArrayDomain(arrays), Policy.BITS, known)[0] for g in graphs)
    scales = np.abs(arrays["x"]) @ np.abs(arrays["w"])
    differences = np.abs(values_of(a) - values_of(b))
    assert (differences <= found.bound.times_sum_abs * scales).all()
    assert np.array_equal(differences.astype(bool).mean(), found.share)


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
