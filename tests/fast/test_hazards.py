"""A graph that is unsafe as it stands says so: where, on which inputs, and what to do."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping
from datetime import date
from fractions import Fraction
from pathlib import Path

import pytest

from lastbit import cli
from lastbit.definitions import Definitions, reference
from lastbit.errors import InputError
from lastbit.graph import Graph
from lastbit.hazards import standing, standing_of
from lastbit.lint import lint_plans
from lastbit.plan import load_plan
from lastbit.plan_model import DataFile, Distribution
from lastbit.registry import find_rule, load_rules
from lastbit.result import Finding, Result
from lastbit.rule import RejectedError, Rewrite, Site
from lastbit.run import run_bits, run_graph
from lastbit.text import parse_program

TODAY = date(2026, 11, 29)
ROOT = Path(__file__).parents[2]
HAZARDS = [rule for rule in load_rules().values() if rule.finds]
OWN = (
    *("CVT431", "DOM531", "DOM532", "FUS131", "QNT351", "QNT352", "QNT353", "QNT354"),
    *("RED271", "RED272", "RED273", "RED274"),
)


def plan(folder: Path, text: str, rest: str = "") -> str:
    path = folder / "plan.toml"
    head = "schema = 1\n[graph]\nsymbols = { M = 8, K = 64 }\ntext = '''\n"
    path.write_text(f"{head}{text.strip()}\n'''\n{rest}", encoding="utf-8")
    return str(path)


def lint(folder: Path, text: str, rest: str = "") -> Result:
    return lint_plans([plan(folder, text, rest)], today=TODAY)


def codes(result: Result) -> list[tuple[str, int | None, str]]:
    return [(f.code, f.location.line, f.severity) for f in result.findings]


def only(result: Result) -> Finding:
    (finding,) = result.findings
    return finding


def found_in(
    code: str,
    text: str,
    sizes: Mapping[str, int] | None = None,
    inputs: Mapping[str, Distribution | DataFile] | None = None,
) -> dict[str, str]:
    """Return what a hazard finds in a graph: its message by the name of the value."""
    program = parse_program(text)
    nodes = program.nodes(sizes or {}, reference)
    rule = find_rule(code)
    assert rule.finds is not None
    stands = standing(program, Definitions(nodes, program.outputs), inputs)
    return {danger.at[0]: danger.message for danger in rule.finds(stands)}


def remedied(code: str, text: str, *names: str) -> tuple[Graph, Graph]:
    """Return a graph, and the same with the remedy of a hazard at some values."""
    program = parse_program(text)
    before = after = Definitions(program.nodes({}, reference), program.outputs)
    rule = find_rule(code)
    for name in names:
        after = after.edited(rule.apply(Site(after, (name,))))
    inputs = [name for name in before.nodes if before.is_input(name)]
    return before.closed(before.outputs, inputs), after.closed(before.outputs, inputs)


def declared(low: float, high: float, kind: str = "uniform") -> Distribution:
    return Distribution(kind, (Fraction(low), Fraction(high)))


# Every hazard.


def test_there_are_hazards() -> None:
    assert {rule.code for rule in HAZARDS} >= set(OWN)


@pytest.mark.parametrize("rule", HAZARDS, ids=lambda rule: rule.code)
def test_a_hazard_finds_the_unsafe_values_of_its_graph_and_no_others(rule: Rewrite) -> None:
    assert rule.finds is not None
    assert [danger.at for danger in rule.finds(standing_of(rule))] == [(name,) for name in rule.at]


@pytest.mark.parametrize("rule", HAZARDS, ids=lambda rule: rule.code)
def test_a_hazard_does_not_find_what_its_remedy_has_changed(rule: Rewrite) -> None:
    stands = standing_of(rule)
    assert rule.finds is not None
    for name in rule.at:
        edits = rule.apply(Site(stands.program, (name,)))
        cured = standing_of(rule)
        object.__setattr__(cured, "program", cured.program.edited(edits))
        object.__setattr__(cured, "stated", cured.stated | edits.keys())
        assert (name,) not in [danger.at for danger in rule.finds(cured)]


EXPECTED = {
    "qwen3_8b_ffn.toml": [("QNT351", 23)],
    "5_4_3_quantize.toml": [("QNT351", 16)],
}


@pytest.mark.parametrize("path", sorted((ROOT / "examples").rglob("*.toml")), ids=lambda p: p.name)
def test_the_examples_have_no_false_alarms(path: Path) -> None:
    from lastbit.hazards import dangers

    findings = dangers(load_plan(path, TODAY))
    assert [(f.code, f.location.line) for f in findings] == EXPECTED.get(path.name, [])


# What a plan makes of them.

SCALED = "x: bf16[M, K]\ns: f32 = amax(x, axis=-1) / 448\nq: e4m3fn = x / s saturate\n"


def test_a_hazard_is_a_warning_at_the_line_of_its_value(tmp_path: Path) -> None:
    result = lint(tmp_path, SCALED)
    finding = only(result)
    assert (finding.code, finding.severity, finding.step) == ("QNT351", "warning", None)
    assert finding.location.line == 7
    assert finding.message == (
        "scale-without-floor at `q`: the scale `s` is 0 for a row of zeros, and 0 / 0 is NaN in "
        "all of that row; remedy: `q` divides by 1 where its scale is 0"
    )
    assert (result.exit_code, result.summary.errors) == (0, 0)


def test_the_reports_show_hazards(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = plan(tmp_path, SCALED)
    assert cli.run(["lint", path]) == 0
    shown = capsys.readouterr().out
    assert f"{path}:7  QNT351 warning: scale-without-floor at `q`" in shown
    assert "1 finding (no errors)" in shown
    assert cli.run(["lint", path, "--format", "json"]) == 0
    (entry,) = json.loads(capsys.readouterr().out)["findings"]
    assert (entry["code"], entry["step"], entry["severity"]) == ("QNT351", None, "warning")
    assert entry["location"] == {"file": path, "line": 7, "column": None}


@pytest.mark.parametrize(
    ("options", "count"),
    [(["--ignore", "QNT"], 0), (["--select", "RED"], 0), (["--select", "QNT351"], 1)],
)
def test_findings_are_chosen_by_code(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], options: list[str], count: int
) -> None:
    path = plan(tmp_path, SCALED, '[budget]\nhazards = "error"\n')
    assert cli.run(["lint", path, "--format", "json", *options]) == count
    assert len(json.loads(capsys.readouterr().out)["findings"]) == count


def test_a_budget_makes_hazards_fail(tmp_path: Path) -> None:
    result = lint(tmp_path, SCALED, '[budget]\nhazards = "error"\n')
    assert (codes(result), result.exit_code) == ([("QNT351", 7, "error")], 1)


def test_the_budget_of_a_value_decides_its_hazards(tmp_path: Path) -> None:
    rest = '[budget]\nhazards = "error"\n[budget.node.q]\nhazards = "warning"\n'
    assert lint(tmp_path, SCALED, rest).exit_code == 0
    rest = '[budget]\n[budget.node.q]\nhazards = "error"\n'
    assert lint(tmp_path, SCALED, rest).exit_code == 1
    rest = '[budget]\nhazards = "error"\n[budget.node.q]\nchange = "math"\n'
    assert lint(tmp_path, SCALED, rest).exit_code == 1


def test_a_budget_of_another_severity_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError) as caught:
        load_plan(plan(tmp_path, SCALED, '[budget]\nhazards = "errors"\n'), TODAY)
    (problem,) = caught.value.problems
    assert problem.message == "unknown severity 'errors'"
    assert problem.remedy == "Did you mean 'error'?"
    assert problem.place.line == 10


def test_an_allowed_hazard_is_a_note(tmp_path: Path) -> None:
    rest = '[budget]\nhazards = "error"\n[[allow]]\ncode = "QNT"\nat = "q"\nreason = "no zeros"\n'
    finding = only(lint(tmp_path, SCALED, rest))
    assert finding.severity == "note"
    assert finding.message.endswith("where its scale is 0; allowed: no zeros")
    other = rest.replace('at = "q"', 'at = "s"')
    assert only(lint(tmp_path, SCALED, other)).severity == "error"


def test_a_second_graph_adds_what_the_first_does_not_have(tmp_path: Path) -> None:
    first = "x: f32[M, K]\nq: e4m3fn = x\np: e4m3fn = x saturate\n"
    second = "x: f32[M, K]\nq: e4m3fn = x + 0\np: e4m3fn = x\n"
    result = lint(tmp_path, first, f"[after]\ntext = '''\n{second}'''\n")
    found = [(f.code, f.location.line) for f in result.findings if f.step is None]
    assert found == [("DOM532", 6), ("DOM532", 13)]


def test_two_graphs_with_other_policies_are_a_hazard(tmp_path: Path) -> None:
    first = "x: f32[M, K]\nq: e4m3fn = x saturate\n"
    second = "x: f32[M, K]\nq: e4m3fn = x to_nan\n"
    result = lint(tmp_path, first, f"[after]\ntext = '''\n{second}'''\n")
    (finding,) = [f for f in result.findings if f.step is None]
    assert finding.message == (
        "overflow-policy-unstated at `q`: overflow of e4m3fn is `nan`, and `saturate` in the first "
        "graph; remedy: `q` states `saturate`"
    )
    (step,) = result.steps
    assert [entry.kind for entry in step.domain] == ["nan"]


def test_hazards_in_equal_graphs_are_found_once(tmp_path: Path) -> None:
    result = lint(tmp_path, SCALED, f"[after]\ntext = '''\n{SCALED}'''\n")
    assert codes(result) == [("QNT351", 7, "warning")]


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
