"""The check of the rules reports what it found, as text, as JSON and by its exit code."""

import dataclasses
import json

import pytest
from small_rules import DROP, FOLD, SOUND, SPLIT, counted

from lastbit import cli
from lastbit.catalogue.check import check_rule
from lastbit.catalogue.pool import check_rules
from lastbit.catalogue.records import Checked, report
from lastbit.catalogue.text import render
from lastbit.catalogue.trials import settings_of, trials_of

pytestmark = pytest.mark.slow


# The instances, and the reports.


def test_instances_are_at_several_sizes_and_in_several_formats() -> None:
    settings = settings_of(SPLIT)
    assert [(s.purpose, dict(s.sizes)) for s in settings[:5]] == [
        ("large", {"K": 24}),
        ("example", {"K": 4}),
        ("odd", {"K": 25}),
        ("formats", {"K": 24}),
        ("formats", {"K": 4}),
    ]
    inputs = {str(setting.program.statements[0].rounding) for setting in settings}
    assert inputs == {"f32", "bf16", "f16"}
    schedules = {str(setting.program.statements[1].schedule) for setting in settings}
    assert schedules == {"seq", "pairwise(1)", "split(3, partials=bf16)"}
    assert {trial.parameters["n"] for trial in trials_of(SPLIT, settings[0])} >= {1, 2, 3, 4, 5, 6}


def test_equal_arguments_give_equal_reports() -> None:
    first, second = (json.dumps(report([check_rule(SPLIT, seed=3)])) for _ in range(2))
    assert first == second


def test_several_processes_find_what_one_does() -> None:
    seen: list[tuple[int, int, str]] = []
    one = report(check_rules(SOUND, processes=1))
    two = report(check_rules(SOUND, processes=2, progress=lambda *step: seen.append(step)))
    assert one == two
    assert seen == [(1, 4, "RED901"), (2, 4, "DOM901"), (3, 4, "DOM902"), (4, 4, "")]


def _failing() -> list[Checked]:
    return [check_rule(SPLIT), check_rule(dataclasses.replace(FOLD, loses=()))]


def test_the_text_has_a_line_for_each_rule_and_the_totals() -> None:
    assert [counted(line) for line in render(_failing()).splitlines()] == [
        "RED901  split  transform  reassociation  reassociation  n instances  ok",
        "DOM901  fold   transform  bitwise        bitwise        n instances   FAIL",
        "    claims to keep the domain, but at `y` there is signed-zero after it and not before, "
        "on negative zeros in `x` (and in n more)",
        "        x = -0x0.0p+0: 0x00000000 -> 0x80000000 (f32 `y`)",
        "checked 2 rules; n instances; 0 unknown; 6 examples; no hints; 1 rule failed",
    ]


def test_the_json_lists_what_was_found() -> None:
    found = report([check_rule(DROP), *_failing()])
    assert found["schema"] == "lastbit.rules/1"
    assert found["summary"] == {
        "rules": 3,
        "failed": 1,
        "failures": 1,
        "hints": 0,
        "instances": sum(rule["instances"] for rule in found["rules"]),
        "unknown": 0,
        "examples": 10,
    }
    drop, split, fold = found["rules"]
    assert (drop["code"], drop["name"], drop["kind"]) == ("FUS901", "drop", "transform")
    assert (drop["claim"], drop["verified"], drop["loses"]) == ("rounding", "rounding", [])
    assert drop["requirements"] == [
        {
            "text": "the value is on no grid",
            "needed": True,
            "why": "without it, at `q` it is a change of `grid`",
        },
        {
            "text": "the value is no result",
            "needed": True,
            "why": "without it, turns the result `z` from bf16[1] into real[1] at `z`",
        },
    ]
    assert {"K": 4} in split["sizes"]
    assert split["witness"]["parameters"] == {"n": 2}
    assert split["witness"]["at"] == ["y"]
    assert set(split["witness"]["inputs"]["x"]) == {"format", "shape", "hex"}
    assert split["witness"]["before"] != split["witness"]["after"]
    (failure,) = fold["failures"]
    assert failure["witness"]["kind"] == "signed-zero"
    json.dumps(found)


# The command.


def test_the_command_checks_the_named_rules(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.run(["rules", "--check", "cvt402", "fold-subtract-self"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in lines] == ["CVT402", "DOM505", "checked"]
    assert lines[0].endswith("ok")


def test_the_command_prints_json(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.run(["rules", "--check", "CVT402", "--format", "json", "--seed", "1"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert [rule["code"] for rule in found["rules"]] == ["CVT402"]


def test_a_rule_that_fails_makes_the_exit_code_1(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    bad = dataclasses.replace(FOLD, loses=())
    monkeypatch.setattr("lastbit.registry.load_rules", lambda: {"DOM901": bad})
    assert cli.run(["rules", "--check"]) == 1
    assert "1 rule failed" in capsys.readouterr().out


def test_progress_goes_to_stderr_on_a_terminal_only(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.run(["rules", "--check", "CVT402", "DOM505"]) == 0
    assert capsys.readouterr().err == ""
    monkeypatch.setattr("sys.stderr.isatty", lambda: True, raising=False)
    assert cli.run(["rules", "--check", "CVT402", "DOM505"]) == 0
    assert capsys.readouterr().err == "\r\x1b[K1 of 2  DOM505\r\x1b[K"
