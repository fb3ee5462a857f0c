"""A graph that is unsafe as it stands says so: where, on which inputs, and what to do."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from standings import SCALED, TODAY, codes, lint, plan

from lastbit import cli
from lastbit.errors import InputError
from lastbit.plan import load_plan
from lastbit.result import Finding, Result

ROOT = Path(__file__).parents[2]


def only(result: Result) -> Finding:
    (finding,) = result.findings
    return finding


EXPECTED = {
    "qwen3_8b_ffn.toml": [("QNT351", 23)],
    "5_4_3_quantize.toml": [("QNT351", 16)],
    "exercise_5_4.toml": [("QNT351", 19)],
}


@pytest.mark.parametrize("path", sorted((ROOT / "examples").rglob("*.toml")), ids=lambda p: p.name)
def test_the_examples_have_no_false_alarms(path: Path) -> None:
    from lastbit.hazards import dangers

    findings = dangers(load_plan(path, TODAY))
    assert [(f.code, f.location.line) for f in findings] == EXPECTED.get(path.name, [])


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
