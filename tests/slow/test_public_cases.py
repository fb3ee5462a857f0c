"""What people met in public, with the answer that lastbit gives and the numbers that were seen.

The numbers of a case are those of its report, computed here by lastbit; the names of the tests say
what happened. A case is a small plan: what its transform does to the numbers is judged, and what is
unsafe in the graph as it stands is found.
"""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from public_cases import INF, NAN, Lint, kinds, program, quickly, same, transform

from lastbit.formats import FORMATS
from lastbit.interpret.exact import AnyOrderError
from lastbit.result import Step
from lastbit.round_array import round_array
from lastbit.rounding import Rounding
from lastbit.ulp_array import ulp_distance_array

pytestmark = pytest.mark.slow


def promised(step: Step, name: str) -> tuple[bool | None, bool | None]:
    return step.promises[name].before, step.promises[name].after


# Batch size, and run to run.


@pytest.mark.parametrize(("fmt", "rows"), [("f32", 2), ("f64", 2), ("f64", 4)])
def test_p01_a_row_alone_is_summed_by_another_kernel(lint: Lint, fmt: str, rows: int) -> None:
    graph = f"x: {fmt}[M, K]\nw: {fmt}[K, N]\ny: {fmt} = matmul(x, w) acc {fmt} lanes(8)"
    case = lint(
        graph,
        transform("schedule-by-rows", "y", rows=rows, few="lanes(32)"),
        symbols="M = [1, 8], K = 1000, N = 4",
        batch="M",
    )
    assert case.step.change == "reassociation"
    assert promised(case.step, "deterministic") == (True, True)
    assert promised(case.step, "batch_invariant") == (True, False)
    assert case.step.promises["batch_invariant"].cause == f"M in [1, 8] may be below {rows} or not"


def test_p03_a_reduction_configured_by_rows_repeats_and_depends_on_the_batch(lint: Lint) -> None:
    case = lint(
        "x: f32[M, K]\nmu: f32 = mean(x) acc f32 lanes(8)\ny: bf16 = x - mu",
        transform("schedule-by-rows", "mu", rows=1024, few="lanes(32)"),
        symbols="M = [1, 4096], K = 256",
        batch="M",
    )
    assert case.step.change == "reassociation"
    assert promised(case.step, "deterministic") == (True, True)
    assert promised(case.step, "batch_invariant") == (True, False)
    assert case.step.promises["batch_invariant"].cause == (
        "M in [1, 4096] may be below 1024 or not"
    )
    narrow = lint(
        "x: f32[M, K]\nmu: f32 = mean(x) acc f32 lanes(8)",
        transform("schedule-by-rows", "mu", rows=1024, few="lanes(32)"),
        symbols="M = [1, 1023], K = 256",
        batch="M",
    )
    assert promised(narrow.step, "batch_invariant") == (True, True)


def test_p05_a_scan_with_look_back_does_not_repeat(lint: Lint) -> None:
    """2048 terms in a chunk: the prefixes differ from number 2049 on, counted from 0."""
    case = lint(
        "x: f32[1, K]\nj: int32[1, K]\ni: int32[K, 1]\n"
        "y: f32 = sum(select(j <= i, x, 0)) acc f32 seq",
        transform("scan-chunks", "y", chunk=4, carry="look-back"),
        transform("scan-chunks", "y", chunk=4),
        symbols="K = 16",
    )
    look_back, in_order = case.result.steps
    assert look_back.change == in_order.change == "reassociation"
    assert promised(look_back, "deterministic") == (True, False)
    assert promised(in_order, "deterministic") == (True, True)
    places = list(range(16))
    inputs: dict[str, object] = {"x": [2**24] + [1] * 15, "j": places, "i": places}
    before, after = case.numbers("y", inputs, in_order.id)
    differ = [i for i in places if before[i] != after[i]]
    assert differ[0] == 4 + 1


def test_p07_equal_scores_have_one_value_and_any_index(lint: Lint) -> None:
    case = lint(
        "x: bf16[M, E]\ni: int32 = topk_indices(x, 2)\nv: bf16 = topk(x, 2)\n"
        "k: int32 = topk_indices_first(x, 2)",
        transform("ties-without-rule", "i"),
        symbols="M = [1, 64], E = 6",
        batch="M",
    )
    assert case.hazards() == {("DET631", "i")}
    assert case.step.change == "math"
    assert promised(case.step, "deterministic") == (False, True)
    assert kinds(case.step) == set()
    scores = [0.5, 0.25, 0.5, 0.5, 0.125, 0.5]
    with pytest.raises(AnyOrderError):
        case.numbers("i", {"x": scores}, M=1)
    ruled = case.after("i", {"x": scores}, M=1)
    before, after = case.numbers("v", {"x": scores}, M=1)
    assert ruled == [0, 2]
    assert before == after == [0.5, 0.5]
    alike = program(
        "x: bf16[1, 384]\ni: int32 = topk_indices_first(x, 8)\nv: bf16 = topk(x, 8)", x=0.5
    )
    assert alike == {"i": list(range(8)), "v": [0.5] * 8}


# Roundings that a fusion drops.


def test_p09_a_round_trip_through_bf16_is_removed(lint: Lint) -> None:
    case = lint(
        "x: f32[N]\nb: bf16 = x\ny: f32 = b",
        transform("elide-narrow-wide", "y"),
        symbols="N = 3",
    )
    assert case.step.change == "rounding"
    x = [1.00390625, 1.001953125, float.fromhex("0x1.921fb6p+1")]
    assert case.numbers("y", {"x": x}) == ([1, 1, 3.140625], x)


def test_p11_a_bias_is_added_to_the_accumulator_of_a_product(lint: Lint) -> None:
    case = lint(
        "a: f32[M, K]\nb: f32[K, N]\nr: f32[M, N]\ng: bf16 = matmul(a, b) acc f32 seq\n"
        "y: f32 = g + r",
        transform("drop-rounding", "g"),
        symbols="M = 30, K = 64, N = 17",
    )
    assert case.step.change == "rounding"
    drift = case.step.drift
    assert drift is not None
    assert drift.sampled == (510, 510)
    assert drift.share > 0.99
    assert drift.nearer == "after"  # it drifts, and it is not worse


# Contraction.


def test_p13_one_line_has_three_results_by_contraction(lint: Lint) -> None:
    case = lint(
        "x: f32[N]\ns: f32[N]\nm: f32 = x * s\nt: f32 = x * s\ny: f32 = exp(m - t)",
        transform("contract-fma", "m"),
        transform("contract-fma", "t"),
        symbols="N = 1",
    )
    inputs: dict[str, object] = {"x": [1134139801600], "s": [float.fromhex("0x1.715476p-3")]}
    left, right = case.result.steps
    assert case.numbers("y", inputs, left.id) == ([1], [INF])
    assert case.numbers("y", inputs, right.id) == ([1], [0])
    assert left.change == right.change == "rounding"
    assert left.domain
    assert right.domain
    x, s = (Fraction(float(v[0])) for v in inputs.values())  # type: ignore[index]
    assert x * s - Fraction(204527222784) == 7916
    standing = lint(
        "x: f32[N]\ns: f32[N]\nm: f32 = x * s\nl: f32 = exp(x * s - m)\nr: f32 = exp(m - x * s)\n"
        "n: f32 = exp(m - round(x * s, f32))",
        symbols="N = 1",
    )
    assert standing.hazards() == {("FUS131", "l"), ("FUS131", "r")}


# Online softmax and merges.

MERGE = """a: f32[N]
b: f32[N]
u: f32[N]
v: f32[N]
m: f32 = maximum(a, b)
p: f32 = exp2(a - m)
q: f32 = exp2(b - m)
y: f32 = (p * u + q * v) / (p + q)"""


def test_p15_two_empty_states_merge_to_nan(lint: Lint) -> None:
    case = lint(MERGE, transform("maximum-without-guard", "p"), symbols="N = 1")
    assert case.hazards() >= {("RED271", "p"), ("RED271", "q")}
    assert case.step.change == "bitwise"
    assert kinds(case.step) == {("nan", "before")}
    empty: dict[str, object] = {"a": -INF, "b": -INF, "u": 0, "v": 0}
    one: dict[str, object] = {"a": -INF, "b": 1.5, "u": 0, "v": 3}
    assert same(case.numbers("y", empty)[0], [NAN])
    assert case.numbers("y", one) == ([3], [3])
    guarded = "\n".join(
        (
            *MERGE.splitlines()[:5],
            "g: f32 = select(m == -inf, 0, m)",
            "p: f32 = exp2(a - g)",
            "q: f32 = exp2(b - g)",
            "d: f32 = p + q",
            "y: f32 = (p * u + q * v) / select(d == 0, 1, d)",
        )
    )
    assert not any(code == "RED271" for code, _ in lint(guarded, symbols="N = 1").hazards())
    assert program(guarded.replace("[N]", "[1]"), **empty)["y"] == [0]


ATTENTION = """s: f32[M, K]
v: f32[K, N]
m: f32 = max(s, axis=-1)
p: f32 = {}(s - m)
l: f32 = sum(p) acc f32 seq
u: f32 = matmul(p, v) acc f32 seq
o: f32 = u / l"""


def test_p17_a_rescale_is_skipped_behind_weights_that_follow_the_maximum(lint: Lint) -> None:
    case = lint(
        ATTENTION.format("exp2"),
        transform("skipped-rescale", "o", block=1),
        symbols="M = [1, 8], K = 2, N = 1",
    )
    assert case.step.change == "math"
    before, after = case.numbers("o", {"s": [0, 6], "v": [1, 0]}, M=1)
    assert (before[0], after) == (float(np.float32(1 / 65)), [0.5])


def test_p19_a_log_sum_exp_is_read_in_another_base(lint: Lint) -> None:
    """Those to base 2 are larger by 1.44; read as natural ones they weigh more unevenly."""
    text = "\n".join(
        (
            "k: f32[N]\nl: f32[N]\nu: f32[N]\nv: f32[N]",
            "a: f32 = k * log2e\nb: f32 = l * log2e",
            *MERGE.splitlines()[4:],
        )
    )
    other = text.replace("exp2(", "exp(")
    steps = lint(text, symbols="N = 1", after=other).result.steps
    assert {step.change for step in steps} == {"math"}
    found = []
    for side in (text, other):
        wide = side.replace("f32[N]", "f64[1]").replace("f32", "f64")
        found += program(wide, k=3, l=1, u=1, v=2)["y"]
    assert [f"{x:.7f}" for x in found] == ["1.1192029", "1.0528805"]
    assert lint(MERGE, symbols="N = 1").hazards() >= {("RED274", "p"), ("RED274", "q")}
    wrong = lint(
        ATTENTION.format("exp"),
        transform("merge-in-wrong-base", "o", block=1),
        symbols="M = [1, 8], K = 2, N = 1",
    )
    assert wrong.step.change == "math"
    assert wrong.numbers("o", {"s": [1, 1], "v": [1, 2]}, M=1) == ([1.5], [1.5])  # hides it


# Partial sums.


def test_p32_partial_sums_in_bf16_lose_what_cancels(lint: Lint) -> None:
    case = lint(
        "x: f32[K]\ny: bf16 = sum(x) acc f32 seq",
        transform("split-k-bf16-partials", "y", n=3),
        symbols="K = 3",
    )
    assert case.step.change == "rounding"
    assert case.numbers("y", {"x": [256.5, -256, 1]}) == ([1.5], [1])
    standing = lint("x: f32[K]\ny: bf16 = sum(x) acc f32 split(3, partials=bf16)", symbols="K = 3")
    assert standing.hazards() == {("RED273", "y")}


# Norms.

LLAMA_AND_GEMMA = """x: bf16[1, K]
w: bf16[K]
s: f32 = mean(x * x) acc f32 pairwise(8)
v: f32 = s + 1e-6
d: f32 = sqrt(v)
c: f32 = 1 / d
n: f32 = x * c
m: bf16 = n
y: bf16 = m * w
p: f32 = n * w
z: bf16 = p
return y, z"""


def test_p34_the_weight_of_a_norm_is_on_either_side_of_the_rounding(lint: Lint) -> None:
    case = lint(
        "x: bf16[M, K]\nw: bf16[K]\nv: f32 = mean(x * x) acc f32 seq\n"
        "n: bf16 = x * rsqrt(v + 1e-6)\ny: bf16 = n * w",
        transform("move-norm-weight", "y"),
        symbols="M = [1, 8], K = 256",
        batch="M",
    )
    assert case.step.change == "rounding"
    drift = case.step.drift
    assert drift is not None
    assert (drift.max_ulp, 0.2 < drift.share < 0.3) == (1, True)
    scalar = "n: f32[1]\nm: bf16 = n\ny: bf16 = m * 1.75\nz: bf16 = n * 1.75"
    found = program(scalar, n=float(np.float32(1.0024414)))
    assert (found["y"], found["z"]) == ([1.75], [1.7578125])
    rng = np.random.default_rng(0)
    bf16 = Rounding.of("bf16")
    x, w = (
        round_array(rng.standard_normal(4096).astype(np.float32).astype(float), bf16)
        for _ in range(2)
    )
    arrays = quickly(LLAMA_AND_GEMMA, {"x": x[None], "w": w}, K=4096)
    ulps = ulp_distance_array(arrays["y"], arrays["z"], FORMATS["bf16"]).ulps
    assert (int((ulps > 0).sum()), ulps.max()) == (1705, 1)


def test_p36_a_fusion_whose_formats_do_not_match_is_rejected(lint: Lint) -> None:
    text = (
        "x: bf16[M, K]\nw: {}[K]\ns: f32[1]\nv: f32 = mean(x * x) acc f32 seq\n"
        "n: bf16 = x * rsqrt(v + 1e-6)\ny: bf16 = n * w\nq: e4m3fn = y / s saturate"
    )
    rule = transform("fuse-norm-quantize", "q")
    mixed = lint(text.format("f32"), rule, symbols="M = [1, 8], K = 16", batch="M")
    assert mixed.step.change == "unknown"
    (finding,) = [f for f in mixed.result.findings if f.code == "FUS115"]
    assert "requirement `the weight has the format of the activations` fails" in finding.message
    alike = lint(text.format("bf16"), rule, symbols="M = [1, 8], K = 16", batch="M")
    assert alike.step.change == "bitwise"


def test_p37_a_variance_in_one_pass_cancels(lint: Lint) -> None:
    one_pass = (
        "x: f32[M, K]\nmu: f32 = mean(x) acc f32 seq\nxx: f32 = x * x\n"
        "sq: f32 = mean(xx) acc f32 seq\nmm: f32 = mu * mu\nv: f32 = sq - mm\n"
        "y: f32 = (x - mu) * rsqrt(v + 1e-5)"
    )
    case = lint(
        one_pass, transform("cancelling-variance", "v"), symbols="M = [1, 8], K = 4", batch="M"
    )
    assert ("RED272", "v") in case.hazards()
    assert case.step.change == "rounding"
    assert case.step.domain
    x: dict[str, object] = {"x": [40000, 40001, 40002, 40003]}
    assert case.numbers("v", x, M=1) == ([-128], [1.25])
    before, after = case.numbers("y", x, M=1)
    assert same(before, [NAN] * 4)
    assert [round(value, 4) for value in after] == [-1.3416, -0.4472, 0.4472, 1.3416]
