"""What people met in public, with the answer that lastbit gives and the numbers that were seen.

The numbers of a case are those of its report, computed here by lastbit; the names of the tests say
what happened. A case is a small plan: what its transform does to the numbers is judged, and what is
unsafe in the graph as it stands is found.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest

from lastbit.formats import FORMATS, Exact, bits_text
from lastbit.interpret.array import ArrayDomain, values_of
from lastbit.interpret.evaluate import results
from lastbit.interpret.exact import AnyOrderError
from lastbit.interpret.policy import Policy
from lastbit.lint import lint_plans
from lastbit.result import Result, Step
from lastbit.round_array import round_array
from lastbit.rounding import Rounding
from lastbit.run import run_graph
from lastbit.steps import step_graphs
from lastbit.text import parse_program
from lastbit.ulp_array import ulp_distance_array

pytestmark = pytest.mark.slow

INF, NAN = math.inf, math.nan


@dataclass(frozen=True)
class Case:
    """A plan and what lint says of it.

    Attributes:
        path: the plan.
        result: of `lastbit lint`.
    """

    path: Path
    result: Result

    @property
    def step(self) -> Step:
        """Return the only step."""
        (step,) = self.result.steps
        return step

    def hazards(self) -> set[tuple[str, str]]:
        """Return the code and the value of each finding about the graph as it stands."""
        return {
            (finding.code, finding.message.split("`")[1])
            for finding in self.result.findings
            if finding.step is None
        }

    def numbers(
        self, output: str, inputs: dict[str, object], step: str | None = None, **sizes: int
    ) -> tuple[list[float], list[float]]:
        """Return a value before and after a step, element by element, as it is computed exactly."""
        before, after = self.exact(output, inputs, step, **sizes)
        return [float(x) for x in before], [float(x) for x in after]

    def after(self, output: str, inputs: dict[str, object], **sizes: int) -> list[float]:
        """Return a value after the step alone, where it has no one number before."""
        _, graph = step_graphs(str(self.path), self.step.id, sizes)
        return [float(x) for x in run_graph(graph, inputs, [output])[output].flat]

    def exact(
        self, output: str, inputs: dict[str, object], step: str | None = None, **sizes: int
    ) -> tuple[list[Exact], list[Exact]]:
        """Return a value before and after a step, element by element."""
        graphs = step_graphs(str(self.path), step or self.result.steps[0].id, sizes)
        found = [run_graph(graph, inputs, [output])[output] for graph in graphs]
        return list(found[0].flat), list(found[1].flat)


Lint = Callable[..., Case]


@pytest.fixture
def lint(tmp_path: Path) -> Lint:
    """Return a function that writes a plan and lints it."""

    def linted(
        graph: str,
        *transforms: str,
        symbols: str = "",
        batch: str = "",
        inputs: str = "",
        after: str = "",
    ) -> Case:
        path = tmp_path / f"plan{len(list(tmp_path.iterdir()))}.toml"
        rows = f'batch = "{batch}"\n' if batch else ""
        texts = [
            f'schema = 1\n[graph]\nname = "case"\nsymbols = {{ {symbols} }}\n{rows}',
            f"text = '''\n{graph}\n'''\n",
            f"[inputs]\n{inputs}\n" if inputs else "",
            *(f"[[transform]]\n{given}\nbranch = true\n" for given in transforms),
            f"[after]\ntext = '''\n{after}\n'''\n" if after else "",
        ]
        path.write_text("".join(texts), encoding="utf-8")
        return Case(path, lint_plans([str(path)]))

    return linted


def transform(rule: str, *at: str, **parameters: object) -> str:
    names = ", ".join(f'"{name}"' for name in at)
    given = "".join(
        f"\n{name} = {value if isinstance(value, int) else repr(value)}"
        for name, value in parameters.items()
    )
    return f'rule = "{rule}"\nat = [{names}]{given}'


def kinds(step: Step) -> set[tuple[str, str]]:
    """Return what misbehaves on one side only, and on which."""
    return {(entry.kind, entry.side) for entry in step.domain}


def promised(step: Step, name: str) -> tuple[bool | None, bool | None]:
    return step.promises[name].before, step.promises[name].after


def program(text: str, **inputs: object) -> dict[str, list[float]]:
    """Return every value of a program with fixed sizes, as it is computed exactly."""
    graph = parse_program(text).bind({})
    names = [name for name in graph.values if not any(name == i.name for i in graph.inputs)]
    return {name: [float(x) for x in v.flat] for name, v in run_graph(graph, inputs, names).items()}


def quickly(text: str, inputs: dict[str, np.ndarray], **sizes: int) -> dict[str, np.ndarray]:
    """Return the results of a program on arrays."""
    graph = parse_program(text).bind(sizes)
    found = results(graph, ArrayDomain(inputs), Policy.BITS)
    return {name: values_of(value) for name, value in found.items()}


def same(found: list[float], want: list[float]) -> bool:
    """Return whether numbers are equal; NaN is NaN."""
    return np.array_equal(np.array(found), np.array(want), equal_nan=True)


# Batch size, and run to run.


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
        ("x * 0", "multiply-by-zero-folded", [NAN, NAN, 0, -0.0], 0),
        ("x - x", "subtract-self-folded", [NAN, NAN, 0, 0], 0),
        ("x / x", "divide-self-folded", [NAN, NAN, NAN, 1], 1),
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
