"""Public reports of special values and of other functions: lastbit finds what was observed."""

from __future__ import annotations

import math

import numpy as np
import pytest
from public_cases import INF, NAN, Lint, kinds, program, quickly, same, transform

from lastbit.formats import FORMATS, bits_text
from lastbit.round_array import round_array
from lastbit.rounding import Rounding
from lastbit.ulp_array import ulp_distance_array

pytestmark = pytest.mark.slow


# Range and special values.


def test_p45_the_sum_of_a_mean_overflows(lint: Lint) -> None:
    case = lint(
        "x: f16[K]\ny: f16 = mean(x) acc f32 seq",
        transform("mean-by-narrow-sum", "y"),
        symbols="K = 2000",
        inputs='x = { distribution = "uniform(0, 60)" }',
    )
    assert case.step.change == "rounding"
    assert ("overflow", "after") in kinds(case.step)
    assert case.numbers("y", {"x": 60}) == ([60], [INF])
    narrow = lint(
        "x: f16[K]\ny: f16 = mean(x) acc f16 seq",
        symbols="K = 2000",
        inputs='x = { distribution = "uniform(0, 60)" }',
    )
    assert narrow.hazards() == {("DOM531", "y")}
    row = "x: f32[1, 512]\ny: f32 = rms_norm(x, 1, 1e-6) acc f32 pairwise(1)"
    for m, want in ((1e15, 1.0), (1e18, 0.0), (1e19, 0.0), (1e25, 0.0)):
        assert set(program(row, x=float(np.float32(m)))["y"]) == {want}


def test_p46_a_maximum_with_zero_loses_the_sign_of_zero(lint: Lint) -> None:
    case = lint(
        "x: f32[N]\ny: f32 = select(x < 0, 0, x)",
        transform("relu-by-maximum", "y"),
        symbols="N = 2",
    )
    assert case.step.change == "bitwise"
    assert {kind for kind, _ in kinds(case.step)} == {"signed-zero"}
    before, after = case.exact("y", {"x": [-0.0, 1]})
    words = [[bits_text(x, FORMATS["f32"]) for x in side] for side in (before, after)]
    assert words == [["0x80000000", "0x3f800000"], ["0x00000000", "0x3f800000"]]
    assert [float(x) for x in before] == [float(x) for x in after]  # equal as numbers


@pytest.mark.parametrize(
    ("expression", "rule", "before", "after"),
    [
        ("x * 0", "fold-multiply-by-zero", [NAN, NAN, 0, -0.0], 0),
        ("x - x", "fold-subtract-self", [NAN, NAN, 0, 0], 0),
        ("x / x", "fold-divide-self", [NAN, NAN, NAN, 1], 1),
    ],
)
def test_p48_a_fold_hides_infinity_and_nan(
    lint: Lint, expression: str, rule: str, before: list[float], after: float
) -> None:
    case = lint(f"x: f32[N]\ny: f32 = {expression}", transform(rule, "y"), symbols="N = 4")
    assert case.step.change == "bitwise"
    assert ("nan", "before") in kinds(case.step)
    found = case.numbers("y", {"x": [INF, NAN, 0, -1]})
    assert same(found[0], before)
    assert [math.copysign(1, x) for x in found[0][3:]] == [math.copysign(1, before[3])]
    assert found[1] == [after] * 4


# Other functions.


def test_p50_gelu_by_tanh_is_not_gelu_by_erf(lint: Lint) -> None:
    case = lint("x: f32[N]\ny: f32 = gelu(x)", transform("gelu-tanh-for-erf", "y"), symbols="N = 1")
    assert case.step.change == "math"
    (exact,), (fast,) = case.numbers("y", {"x": [float(np.float32(-2.69895))]})
    assert (f"{exact:.7f}", f"{fast:.7f}", f"{fast - exact:.2e}") == (
        "-0.0093868",
        "-0.0089135",
        "4.73e-04",
    )
    assert same(case.numbers("y", {"x": [-INF]})[0], [NAN])
    # Of the bf16 numbers on a line from -6 to 6, each function rounded correctly.
    x = np.unique(round_array(np.linspace(-6, 6, 24001), Rounding.of("bf16")))
    arrays = quickly("x: bf16[N]\ny: bf16 = gelu(x)\nz: bf16 = gelu_tanh(x)", {"x": x}, N=x.size)
    ulps = ulp_distance_array(arrays["y"], arrays["z"], FORMATS["bf16"]).ulps
    assert (x.size, int((ulps > 0).sum())) == (1909, 253)
    body = np.abs(x) < 3
    assert (ulps[body].max(), x[body][ulps[body].argmax()]) == (17, -2.984375)
    assert ulps.max() > 700  # in the tail, where both are nearly 0


def test_p52_tf32_rounds_1024_and_a_half_to_1025(lint: Lint) -> None:
    case = lint(
        "a: f32[M, K]\nb: f32[K, N]\ny: f32 = matmul(a, b) acc f32 seq",
        transform("tf32-operands", "y"),
        transform("tf32-operands", "y", mode="rne"),
        symbols="M = 1, K = 1, N = 1",
    )
    away, even = case.result.steps
    assert away.change == even.change == "rounding"
    inputs: dict[str, object] = {"a": 1024.5, "b": 1}
    assert case.numbers("y", inputs, away.id) == ([1024.5], [1025])
    assert case.numbers("y", inputs, even.id) == ([1024.5], [1024])
    rng = np.random.default_rng(0)
    a, b = (rng.standard_normal((128, 512)).astype(np.float32).astype(float) for _ in range(2))
    tf32 = Rounding.of("tf32", mode="rna")
    exact, narrow = a @ b.T, round_array(a, tf32) @ round_array(b, tf32).T
    assert f"{np.linalg.norm(narrow - exact) / np.linalg.norm(exact):.1e}" == "2.9e-04"


def test_p54_a_mean_of_means_of_unequal_batches_is_another_mean(lint: Lint) -> None:
    case = lint(
        "x: f32[K]\ny: f32 = mean(x) acc f32 seq",
        transform("mean-of-means", "y", block=9),
        symbols="K = 10",
    )
    assert case.step.change == "math"
    (before,), (after,) = case.numbers("y", {"x": [1] * 9 + [2]})
    assert (before, after) == (float(np.float32(1.1)), 1.5)


def test_p56_a_position_in_bf16_is_another_position(lint: Lint) -> None:
    text = "p: int32[N]\nt: {} = p\nc: f32 = cos(t)"
    wide, narrow = text.format("f32"), text.format("bf16")
    case = lint(wide, symbols="N = 1", after=narrow)
    assert case.step.change == "rounding"
    assert case.hazards() == {("CVT431", "t")}
    found = [program(side.replace("[N]", "[1]"), p=15962) for side in (wide, narrow)]
    assert [side["t"] for side in found] == [[15962], [15936]]
    assert [f"{side['c'][0]:.4f}" for side in found] == ["-0.9080", "-0.2680"]
    held = program("p: int32[1024]\nt: bf16 = p", p=list(range(1024)))["t"]
    assert len(set(held)) == 513
    assert lint(wide, symbols="N = 1").hazards() == set()
    short = 'p = { distribution = "integers(0, 256)" }'
    assert lint(narrow, symbols="N = 1", inputs=short).hazards() == set()
