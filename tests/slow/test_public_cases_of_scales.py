"""Public reports of scales, codes and grids: lastbit finds what was observed."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from public_cases import INF, NAN, Lint, kinds, program, quickly, same, transform

pytestmark = pytest.mark.slow


# Scales.

QUANTIZED = "x: f32[M, K]\ns: f32 = amax(x) / 448\nq: e4m3fn = x / s saturate\ny: f32 = q * s"


def test_p20_a_row_of_zeros_becomes_nan(lint: Lint) -> None:
    case = lint(
        QUANTIZED,
        transform("scale-without-floor", "q"),
        symbols="M = [1, 8], K = 4",
        batch="M",
    )
    assert ("QNT351", "q") in case.hazards()
    assert case.step.change == "bitwise"
    assert ("nan", "before") in kinds(case.step)
    before, after = case.numbers("y", {"x": 0}, M=1)
    assert same(before, [NAN] * 4)
    assert after == [0] * 4
    product = "x: f32[1, 4]\ns: f32 = 448 / amax(x)\ny: f32 = x * s"
    assert same(program(product, x=0)["y"], [NAN] * 4)
    one_row = lint(
        "x: f32[M, K]\ns: f32 = 448 / amax(x)",
        transform("scale-without-floor", "s"),
        symbols="M = 1, K = 4",
    )
    assert one_row.step.change == "bitwise"  # decided for a single scale too
    floored = QUANTIZED.replace("amax(x) / 448", "maximum(amax(x) / 448, 1e-12)")
    assert ("QNT351", "q") not in lint(floored, symbols="M = 1, K = 4").hazards()


def test_p22_what_overflow_becomes_is_stated_on_both_sides(lint: Lint) -> None:
    text = "x: f32[N]\nq: e4m3fn = x saturate"
    case = lint(text, transform("saturate-to-nan", "q"), symbols="N = 8")
    assert case.step.change == "bitwise"
    assert ("nan", "after") in kinds(case.step)
    x: list[object] = [448, 464, float(np.float32(464.1)), 465, 480, 1000, INF, -INF]
    before, after = case.numbers("q", {"x": x})
    assert before == [448] * 7 + [-448]
    assert same(after, [448, 448] + [NAN] * 6)
    assert lint(text.replace(" saturate", ""), symbols="N = 8").hazards() == {("DOM532", "q")}
    assert lint(text, symbols="N = 8").hazards() == set()
    two = lint(text, symbols="N = 8", after=text.replace("saturate", "to_nan"))
    assert two.hazards() == {("DOM532", "q")}
    others = "x: f32[2]\nz: e4m3fnuz = x to_nan\ny: e5m2 = x to_inf"
    found = [program(others, x=pair) for pair in ([240, 248], [61439, 61440])]
    assert same(found[0]["z"], [240, NAN])
    assert found[1]["y"] == [57344, INF]


SHARDS = """a: f32[1, K]
b: f32[1, K]
sa: f32 = amax(a) / 448
sb: f32 = amax(b) / 448
qa: e4m3fn = a / sa saturate
qb: e4m3fn = b / sb saturate
y: f32 = concat(qa * sa, qb * sb, axis=0)"""
SHARED = """a: f32[1, K]
b: f32[1, K]
s: f32 = maximum(amax(a), amax(b)) / 448
own: f32 = amax(a) / 448
q: e4m3fn = a / s saturate
p: e4m3fn = a / own saturate
y: f32 = q * s
z: f32 = p * own
return y, z"""
MERGED = """a: f32[K, N]
b: f32[K, N]
w: f32 = concat(a, b, axis=1)
s: f32 = amax(amax(w, axis=0), axis=1) / 448
q: e4m3fn = w / s saturate
y: f32 = q * s"""


def test_p24_one_scale_for_shards_is_harmless_down_to_a_ratio(lint: Lint) -> None:
    case = lint(SHARDS, transform("quantize-merged-shards", "qa", "qb"), symbols="K = 64")
    assert case.step.change == "grid"
    large = np.random.default_rng(0).standard_normal((1, 4096)).astype(np.float32)
    errors = {}
    for ratio in (1e-2, 1e-3, 1e-4, 1e-5, 1e-6):
        small = (large * np.float32(ratio)).astype(np.float64)
        found = quickly(SHARED, {"a": small, "b": large.astype(np.float64)}, K=4096)
        norm = np.sqrt((small**2).sum())
        errors[ratio] = tuple(
            f"{np.sqrt(((found[name] - small) ** 2).sum()) / norm:.4f}" for name in ("y", "z")
        )
    assert errors == {
        1e-2: ("0.0264", "0.0267"),
        1e-3: ("0.0264", "0.0267"),
        1e-4: ("0.0489", "0.0267"),
        1e-5: ("0.4944", "0.0267"),
        1e-6: ("1.0000", "0.0267"),
    }
    for ratio, wanted in (("1e-2", False), ("1e-3", False), ("9e-5", True), ("1e-6", True)):
        declared = (
            'a = { distribution = "normal(0, 1)" }\n'
            f'b = {{ distribution = "normal(0, {ratio})" }}'
        )
        found = lint(MERGED, symbols="K = 64, N = 64", inputs=declared).hazards()
        assert (("QNT354", "q") in found) == wanted, ratio


def test_p26_a_maximum_before_the_rounding_changes_the_scale_and_overflows_nothing(
    lint: Lint,
) -> None:
    text = (
        "x: f32[M, K]\nt: bf16 = x\ns: f32 = amax(t) / 448\n"
        "q: e4m3fn = t / s saturate\ny: f32 = q * s"
    )
    case = lint(
        text, transform("amax-before-rounding", "q"), symbols="M = [1, 8], K = 2", batch="M"
    )
    assert case.step.change == "rounding"
    assert not {kind for kind, side in kinds(case.step) if side == "after"}
    x: dict[str, object] = {"x": [3.01171875, 0.5]}
    (before, *_), (after, *_) = case.exact("s", x, M=1)
    assert (before != after, float(before) * 448 > 3.0156, float(after) * 448 < 3.0118) == (
        (True,) * 3
    )
    largest = Fraction(float(case.numbers("t", x, M=1)[0][0])) / Fraction(after)  # type: ignore[arg-type]
    assert f"{float(largest):.2f}" == "448.58"
    assert [value[0] for value in case.numbers("q", x, M=1)] == [448, 448]
    early = text.replace("amax(t)", "amax(x)")
    (finding,) = [
        f for f in lint(early, symbols="M = 1, K = 2").result.findings if f.code == "QNT352"
    ]
    assert "which does not overflow" in finding.message


def test_p28_a_scale_to_the_nearest_power_of_two_clips_the_maximum(lint: Lint) -> None:
    modes = ("nearest", "up", "floor")
    case = lint(
        QUANTIZED,
        *(transform("power-of-two-scale", "q", mode=mode) for mode in modes),
        symbols="M = [1, 8], K = 1",
        batch="M",
    )
    assert [step.change for step in case.result.steps] == ["grid"] * 3
    saturates = [any(e.kind == "saturate" for e in step.domain) for step in case.result.steps]
    assert saturates == [True, False, True]
    for amax, *stored, lost in (
        (630, 448, 640, 640, "28.89"),
        (500, 448, 512, 448, "10.40"),
        (449, 448, 448, 448, "0.22"),
        (448, 448, 448, 448, "0.00"),
    ):
        found = [case.numbers("y", {"x": amax}, s.id, M=1)[1] for s in case.result.steps]
        assert found == [[value] for value in stored]
        assert f"{100 * (1 - found[0][0] / amax):.2f}" == lost
    clips = QUANTIZED.replace("s: f32", "s: e8m0")
    (finding,) = [
        f for f in lint(clips, symbols="M = 1, K = 1").result.findings if f.code == "QNT353"
    ]
    assert finding.message.startswith("scale-rounding-clips at `q`")
    safe = clips.replace("/ 448", "/ 448 rup")
    assert not {c for c, _ in lint(safe, symbols="M = 1, K = 1").hazards()} & {"QNT353"}


def test_p30_a_last_digit_upstream_moves_a_code_by_one(lint: Lint) -> None:
    case = lint(
        "a: bf16[N]\nb: bf16[N]\nx: bf16 = a * b\nc: uint8 = ceil(log2(abs(x))) + 127",
        transform("drop-rounding", "x"),
        symbols="N = 4096",
    )
    assert case.step.change == "rounding"
    drift = case.step.drift
    assert drift is not None
    assert drift.output == "c"
    assert drift.codes_changed is not None
    assert 0 < drift.codes_changed == drift.share < 0.02
    step = np.nextafter(np.float32([1, 8]), np.float32(9))
    codes = program(
        "x: f32[4]\nc: uint8 = ceil(log2(abs(x))) + 127", x=[1, float(step[0]), 8, float(step[1])]
    )
    assert codes["c"] == [127, 128, 130, 131]


# Rounding modes of grids.


def test_p39_a_quotient_is_truncated_on_its_way_to_integers(lint: Lint) -> None:
    case = lint(
        "x: f16[N]\ns: f16[N]\nq: int8 = x / s saturate",
        transform("change-rounding-mode", "q", mode="rtz"),
        symbols="N = 2",
    )
    assert case.step.change == "grid"
    inputs: dict[str, object] = {"x": [0.050018310546875, -0.050018310546875], "s": 0.0999755859375}
    assert case.numbers("q", inputs) == ([1, -1], [0, 0])
    assert f"{0.050018310546875 / 0.0999755859375:.4f}" == "0.5003"


def test_p41_ties_show_at_scales_that_are_powers_of_two(lint: Lint) -> None:
    scales = {"2^-5": "1 / 32", "2^-6": "1 / 64", "2^-7": "1 / 128", "4/127": "4 / 127"}
    graph = "x: bf16[N]\n" + "\n".join(
        f"q{i}: int32 = x / ({scale})" for i, scale in enumerate(scales.values())
    )
    rules = [transform("change-rounding-mode", f"q{i}", mode="rna") for i in range(4)]
    case = lint(graph, *rules, symbols="N = 131072")
    assert [step.change for step in case.result.steps] == ["grid"] * 4
    shares = [step.drift.codes_changed for step in case.result.steps if step.drift is not None]
    for found, seen in zip(shares, (0.074, 0.121, 0.105, 0), strict=True):
        assert found is not None
        assert abs(found - seen) < 0.003


def test_p43_four_of_seven_midpoints_of_e2m1_go_the_other_way(lint: Lint) -> None:
    case = lint(
        "x: f32[N]\nq: e2m1 = x saturate",
        transform("change-rounding-mode", "q", mode="rna"),
        symbols="N = 7",
    )
    assert case.step.change == "grid"
    even, away = case.numbers("q", {"x": [0.25, 0.75, 1.25, 1.75, 2.5, 3.5, 5]})
    assert (even, away) == ([0, 1, 1, 2, 2, 4, 4], [0.5, 1, 1.5, 2, 3, 4, 6])
    assert sum(a != b for a, b in zip(even, away, strict=True)) == 4
