"""The command compares two functions of a file, and its report can be run again."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from compared import IDEA

from lastbit import cli
from lastbit.result import read_result

pytestmark = pytest.mark.slow

EXAMPLE = Path(__file__).parents[2] / "examples/check_swiglu.py"


def test_the_command_prints_the_report(idea, capsys) -> None:
    assert idea("idea.py:before", "idea.py:after", "--symbol", "M=1..64", "--batch=M") == 0
    out, err = capsys.readouterr()
    head, title, *rest, last = out.splitlines()
    assert head.split() == ["idea.py:10:12", "difference", "at", "`result`", "rounding"]
    assert title == "    `result` is computed in another way"
    assert any(line.startswith("    witness   x: bf16[") for line in rest)
    assert "    promises  deterministic, batch-invariant, layout-invariant" in rest
    assert last.startswith("decided 1 of 1 step; 1 rounding; no findings")
    assert err == "tracing\n"  # what the function prints does not mix with the report


def test_a_demand_that_is_not_met_gives_the_exit_code(idea, capsys) -> None:
    arguments = ("idea.py:before", "idea.py:after", "-q", "--max-change")
    assert idea(*arguments, "rounding") == 0
    assert idea(*arguments, "reassociation") == 1
    assert "1 finding (1 error)" in capsys.readouterr().out


def test_inputs_and_symbols_of_the_command_count_first(idea, capsys) -> None:
    given = ("--input", "x=bf16[N, 8] uniform(-1, 1)", "--input", "w = bf16[8,4]")
    assert idea("idea.py:before", "idea.py:after", *given, "--symbol=N=4", "--format=json") == 0
    document = json.loads(capsys.readouterr().out)
    assert document["command"] == "check"
    assert document["steps"][0]["drift"]["inputs"] == "w: normal(0, 1), x: uniform(-1, 1)"
    assert not any("assumed" in note for note in document["steps"][0]["notes"])


def test_a_witness_of_the_command_runs_again(idea, capsys) -> None:
    assert idea("idea.py:before", "idea.py:after", "--output", "json=r.json") == 0
    assert "lastbit replay r.json#difference" in capsys.readouterr().out
    result = read_result("r.json")
    witness = result.steps[0].witness
    assert witness is not None
    Path("idea.py").unlink()  # the result holds everything
    assert cli.run(["replay", "r.json#difference"]) == 0
    assert f"{witness.before[0]} -> {witness.after[0]}" in capsys.readouterr().out
    assert cli.run(["replay", "r.json#difference", "--script"]) == 0
    script = capsys.readouterr().out
    done = subprocess.run([sys.executable, "-"], input=script, capture_output=True, text=True)
    assert (done.returncode, "These are the bits of the witness." in done.stdout) == (0, True)


def test_the_json_follows_the_schema(idea, capsys) -> None:
    jsonschema = pytest.importorskip("jsonschema")
    schema = json.loads((EXAMPLE.parents[1] / "reports/report.schema.json").read_text())
    idea("idea.py:before", "idea.py:after", "--format", "json")
    jsonschema.validate(json.loads(capsys.readouterr().out), schema)


def test_a_file_may_import_its_neighbours(idea, capsys) -> None:
    Path("helper_of_idea.py").write_text("SCHEDULE = 'split(4)'\n", encoding="utf-8")
    text = IDEA.replace("import lastbit\n", "import lastbit\nfrom helper_of_idea import SCHEDULE\n")
    Path("idea.py").write_text(text.replace('"split(4)"', "SCHEDULE"), encoding="utf-8")
    assert idea("idea.py:before", "idea.py:after", "-q") == 0
    sys.modules.pop("helper_of_idea")


def test_the_example_is_what_it_says(capsys, monkeypatch) -> None:
    monkeypatch.setattr(sys, "path", [*sys.path])
    symbol = ("--symbol", "M=1..64")
    target = f"{EXAMPLE}:before"
    assert cli.run(["check", target, f"{EXAMPLE}:fused", *symbol, "-q"]) == 0
    assert "1 rounding" in capsys.readouterr().out
    assert cli.run(["check", target, f"{EXAMPLE}:rounded", *symbol, "-q"]) == 0
    assert "1 bitwise" in capsys.readouterr().out
