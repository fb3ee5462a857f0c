"""What the user's code prints goes to stderr, so that a report on stdout stays one document."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from lastbit import cli

torch = pytest.importorskip("torch")

FILE = """
import torch

print("loading")

def before(x):
    print("running before")
    return x * 3

def after(x):
    print("running after")
    return x + x + x

class Inputs:
    def __call__(self):
        print("making inputs")
        return (torch.ones(4, 4, dtype=torch.bfloat16),)

before.inputs = after.inputs = Inputs()
"""


@pytest.mark.parametrize("compiled", [False, True])
def test_a_report_in_json_is_all_that_stdout_holds(
    compiled: bool, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    if compiled and shutil.which("g++") is None:
        pytest.skip("Inductor needs a C++ compiler")
    path = tmp_path / "noisy.py"
    path.write_text(FILE)
    second = ["--compile"] if compiled else [f"{path}:after"]
    assert cli.run(["check", f"{path}:before", *second, "--format", "json"]) in (0, 1)
    out, err = capsys.readouterr()
    assert json.loads(out)["command"] == "check"
    assert out.startswith("{")
    assert out.endswith("}\n")
    assert all(word in err for word in ("loading", "making inputs"))
    assert "running" not in out
