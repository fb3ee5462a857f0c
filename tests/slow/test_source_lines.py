"""Differences are told by the user's lines, of functions and of what they call."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from lastbit import cli

torch = pytest.importorskip("torch")

FILE = """import torch

def triple(x):
    return x.float() * 3

def before(x, y):
    z = (x + y) * 3
    return z - y

def after(x, y):
    z = triple(x + y)
    return (z - y).bfloat16()

class Norm(torch.nn.Module):
    def forward(self, x):
        y = x * x
        return y + x

class Layer(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.q_norm = Norm()
        self.k_norm = Norm()
    def forward(self, x, y):
        q = self.q_norm(x)
        k = self.k_norm(y)
        return q @ k

def build():
    return Layer().eval()

ONES = torch.ones(16, 16, dtype=torch.bfloat16)
before.inputs = after.inputs = build.inputs = (ONES, ONES)
"""


def _steps(path: Path, capsys: pytest.CaptureFixture[str], *given: str) -> list[dict[str, object]]:
    path.write_text(FILE)
    assert cli.run(["check", *given, "--format", "json"]) == 0
    steps: list[dict[str, object]] = json.loads(capsys.readouterr().out)["steps"]
    return steps


def test_exported_functions_have_lines(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    from torch.fx.proxy import TracerBase

    if not hasattr(TracerBase, "_filter_traceback_frames"):
        pytest.skip("this torch filters frames in another way")
    kept = TracerBase._filter_traceback_frames
    path = tmp_path / "lines.py"
    (step,) = _steps(path, capsys, f"{path}:before", f"{path}:after")
    assert TracerBase._filter_traceback_frames is kept
    assert step["location"] == {"file": str(path), "line": 12, "column": None}
    assert f"({path}:8); after: " in str(step["notes"])


@pytest.mark.skipif(shutil.which("g++") is None, reason="Inductor needs a C++ compiler")
def test_one_line_of_two_modules_is_told_apart(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "lines.py"
    first, second = _steps(path, capsys, f"{path}:build", "--compile")
    for step, text in ((first, "in `q_norm`, called at"), (second, "in `k_norm`, called at")):
        assert step["location"] == {"file": str(path), "line": 17, "column": None}
        (note,) = [note for note in step["notes"] if note.startswith("in `")]  # type: ignore[attr-defined]
        assert note.startswith(text)
    assert str(first["notes"]).count(f"{path}:25") == str(second["notes"]).count(f"{path}:26") == 1
