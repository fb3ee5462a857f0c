"""A finding that is accepted by name, with a reason, does not fail; everything else still does."""

from __future__ import annotations

import json
from datetime import date
from pathlib import Path
from typing import Any

import pytest

from lastbit import cli
from lastbit.allowing import read_allow, with_allows
from lastbit.errors import InputError
from lastbit.records import Location
from lastbit.result import Finding, Result, Step, environment

DAY = date(2026, 1, 1)
HERE = Location("m.pt2")


def result(*findings: Finding) -> Result:
    """Return a result with two undecided steps, `one` and `two`."""
    steps = [
        Step(name, name, HERE, "unknown", at=(f"{name}_x", f"{name}_y")) for name in ("one", "two")
    ]
    return Result.of("check", steps, findings, environment(0, DAY))


def failing(code: str = "FUS190", step: str | None = "one", text: str = "my.Op reads `x`") -> Any:
    return Finding(code, "error", text, HERE, step)


@pytest.mark.parametrize(
    ("text", "code", "at", "reason"),
    [
        ("FUS190 at y: reviewed", "FUS190", "y", "reviewed"),
        ("FUS at `y`: a: b", "FUS", "y", "a: b"),
        ("RED200: any order will do", "RED200", None, "any order will do"),
        ("FUS190 at aten::sort: ties are rare", "FUS190", "aten::sort", "ties are rare"),
    ],
)
def test_what_is_accepted_has_a_code_perhaps_a_name_and_a_reason(
    text: str, code: str, at: str | None, reason: str
) -> None:
    found = read_allow(text)
    assert (found.code, found.at, found.reason) == (code, at, reason)


@pytest.mark.parametrize(
    "text", ["FUS190", "FUS190 at y", "FUS190 at y:", "FUS190 y: why", ": why"]
)
def test_no_reason_and_no_code_are_refused(text: str) -> None:
    with pytest.raises(InputError) as caught:
        read_allow(text)
    form = "Write 'FUS190 at NAME: reason', or 'FUS190: reason' for all values."
    assert str(caught.value) == f"{text!r} accepts nothing. {form}"


def test_an_unknown_code_is_refused() -> None:
    with pytest.raises(InputError) as caught:
        read_allow("FUS999 at y: why")
    assert str(caught.value).startswith("unknown code 'FUS999'. Did you mean ")


@pytest.mark.parametrize("at", ["one_x", "one_y", "my.Op"])
def test_a_value_or_an_opaque_operator_is_accepted_by_name(at: str) -> None:
    found = with_allows(result(failing()), [read_allow(f"FUS190 at {at}: reviewed")], "m.pt2")
    (finding,) = found.findings
    assert (finding.severity, finding.message) == ("note", "my.Op reads `x`; allowed: reviewed")
    assert [(step.allowed, step.allow_reason) for step in found.steps] == [
        (True, "reviewed"),
        (False, None),
    ]
    assert found.exit_code == 0


def test_another_value_another_code_and_another_operator_still_fail() -> None:
    for text in ("FUS190 at two_x: a", "FUS100 at one_x: a", "FUS190 at Op: a", "RED: a"):
        found = with_allows(result(failing()), [read_allow(text)], "m.pt2")
        assert found.exit_code == 1
        assert not any(step.allowed for step in found.steps)
        (idle,) = (one for one in found.findings if one.severity == "warning")
        assert idle.message.endswith("accepts nothing: no finding that fails is of this kind")


def test_an_operator_is_a_name_of_findings_about_operators_only() -> None:
    found = with_allows(result(failing("FUS100")), [read_allow("FUS100 at my.Op: a")], "m.pt2")
    assert found.exit_code == 1


def test_a_step_is_accepted_when_nothing_of_it_fails_any_more() -> None:
    both = result(failing(), failing("FUS100", text="too far"))
    found = with_allows(both, [read_allow("FUS190: a")], "m.pt2")
    assert [step.allowed for step in found.steps] == [False, False]
    assert found.exit_code == 1
    found = with_allows(both, [read_allow("FUS190: a"), read_allow("FUS100: b")], "m.pt2")
    assert [step.allowed for step in found.steps] == [True, False]
    assert found.exit_code == 0


def test_what_is_about_no_step_is_accepted_without_a_name() -> None:
    found = result(failing("FUS100", None))
    assert with_allows(found, [read_allow("FUS100 at y: a")], "m.pt2").exit_code == 1
    assert with_allows(found, [read_allow("FUS100: a")], "m.pt2").exit_code == 0


def test_nothing_changes_where_nothing_is_accepted() -> None:
    found = result(failing())
    assert with_allows(found, [], "m.pt2") is found


ONE = """
import lastbit
def before(x): return (x + x).to("bf16")
def after(x): return (x * 3).to("bf16")
before.inputs = {"x": "bf16[4]"}
"""


def test_the_command_accepts_for_functions(tmp_path: Path, capsys: Any) -> None:
    path = tmp_path / "f.py"
    path.write_text(ONE)
    sides = (f"{path}:before", f"{path}:after")
    assert cli.run(["check", *sides, "-q"]) == 1
    assert cli.run(["check", *sides, "--allow", "FUS100: meant so"]) == 0
    assert "allowed: meant so" in capsys.readouterr().out
    assert cli.run(["check", *sides, "--allow", "FUS100"]) == 2
    assert "'FUS100' accepts nothing." in capsys.readouterr().err


def test_the_command_accepts_for_what_inductor_made(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any
) -> None:
    path = tmp_path / "f.py"
    path.write_text(ONE)
    monkeypatch.setattr(
        "lastbit.importers.inductor.checking.check_compiled", lambda *a, **k: result(failing())
    )
    arguments = ["check", f"{path}:before", "--compile"]
    assert cli.run([*arguments, "-q"]) == 1
    capsys.readouterr()
    allow = ["--allow", "FUS190 at my.Op: reviewed", "--format", "json"]
    assert cli.run([*arguments, *allow]) == 0
    assert json.loads(capsys.readouterr().out)["steps"][0]["allow_reason"] == "reviewed"


def test_the_command_accepts_for_exported_models(
    monkeypatch: pytest.MonkeyPatch, capsys: Any
) -> None:
    monkeypatch.setattr(
        "lastbit.importers.pt2.checking.check_pt2", lambda *a, **k: result(failing())
    )
    assert cli.run(["check", "a.pt2", "b.pt2", "-q"]) == 1
    assert cli.run(["check", "a.pt2", "b.pt2", "--allow", "FUS190 at one_y: reviewed"]) == 0
    assert "my.Op reads `x`; allowed: reviewed" in capsys.readouterr().out


def test_the_command_accepts_an_opaque_operator_of_two_files_of_onnx(
    tmp_path: Path, capsys: Any
) -> None:
    pytest.importorskip("onnx")
    from onnx_models import model, node, saved, value

    paths = []
    for name, first in (("before", "Add(x, x)"), ("after", "Mul(x, x)")):
        nodes = [node(f"t = {first}"), node("u = my::Op(t)"), node("y = Relu(u)")]
        proto = model(nodes, ["x: f32[B, 4]"], ["y: f32[B, 4]"], domains=["my"])
        proto.graph.value_info.append(value("u: f32[B, 4]"))
        paths.append(saved(tmp_path, proto, f"{name}.onnx"))
    free = ["--allow", "FUS100 at t: meant so"]
    assert cli.run(["check", *paths, *free]) == 1
    assert cli.run(["check", *paths, *free, "--allow", "FUS190 at my.Op: monotone"]) == 0
    out = capsys.readouterr().out
    text = "my.Op reads `t`, which differs, and is known by its name only; allowed: monotone"
    assert text in out
