"""Audits from the command line: a planted culprit, a model, a compiled program, a Triton kernel."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import jsonschema
import pytest

pytest.importorskip("torch")

from lastbit import cli

ROOT = Path(__file__).parents[2]
SCHEMA = json.loads((ROOT / "reports/audit.schema.json").read_text())
MODEL = str(ROOT / "examples/models/qwen3_layer.py")

PLANTED = '''
import torch

def in_order(x):
    total = torch.zeros_like(x[:, 0])
    for column in x.unbind(1):
        total = total + column
    return total

@torch.library.custom_op("planted::total", mutates_args=())
def total(x: torch.Tensor) -> torch.Tensor:
    """Add a row in one piece, and in four where there are 7 rows or more."""
    if x.shape[0] < 7:
        return in_order(x)
    return in_order(torch.stack([in_order(part) for part in x.chunk(4, 1)], 1))

def program(x):
    y = x.abs() + 1
    for _ in range(3):  # each of another shape, so that all are audited
        y = torch.cat([y.neg().clamp(-2, 2), y * 3], 1).relu().sub(0.25).round(decimals=1)
        y = y[:, :-1] / 2
    y = y.flip(1).masked_fill(y > 4, 1.5).maximum(y.roll(1, 1))
    t = total(y)
    return (y * t[:, None]).floor().sign(), t.argmax()

program.inputs = (torch.randn(3, 33, generator=torch.Generator().manual_seed(0)),)
'''

TRITON = """
import torch, triton, triton.language as tl

@triton.jit
def halves(x, out, n, B: tl.constexpr):
    at = tl.program_id(0) * B + tl.arange(0, B)
    tl.store(out + at, tl.load(x + at, mask=at < n) * 0.5, mask=at < n)

def program(x):
    y = x + 1
    out = torch.zeros_like(y)
    halves[(triton.cdiv(y.numel(), 64),)](y, out, y.numel(), B=64)
    return out.relu()

program.inputs = (torch.randn(4, 32),)
"""

COMPILED = """
import torch

def swiglu(g, u):
    return torch.nn.functional.silu(g) * u

swiglu.inputs = tuple(
    torch.randn(4, 256, generator=torch.Generator().manual_seed(n)).bfloat16() for n in (0, 1)
)
"""


def _audit(arguments: list[str], path: Path, capsys: pytest.CaptureFixture[str]) -> tuple:
    code = cli.run(["audit", *arguments, "--output", f"json={path}"])
    document = json.loads(path.read_text())
    jsonschema.validate(document, SCHEMA)
    return code, document, capsys.readouterr().out


def test_a_planted_culprit_among_twenty_operators_is_the_only_one_blamed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "planted.py"
    file.write_text(PLANTED)
    path = tmp_path / "audit.json"
    code, found, out = _audit([f"{file}:program"], path, capsys)
    assert code == 1
    assert found["decided"][0] == found["decided"][1] > 20
    (culprit,) = [case for case in found["cases"] if case["codes"]]
    assert culprit["operator"] == "planted.total.default"
    assert culprit["codes"] == ["DET650"]
    assert culprit["thresholds"]["changes"] == [7]
    cause = culprit["cause"]
    assert (cause["kind"], cause["before"], cause["after"]) == ("order", "seq", "split(4)")
    line = PLANTED.splitlines().index("    t = total(y)") + 1
    assert f"{file}:{line}  DET650 `total`" in out
    assert "1 culprit (1 not batch-invariant)" in out.splitlines()[-1]


def test_every_operator_of_a_model_is_decided(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = [f"{MODEL}:build", "--batch", "1,2,5", "--repeats", "3"]
    code, found, _ = _audit(arguments, tmp_path / "audit.json", capsys)
    assert code == bool(found["summary"]["culprits"])
    assert found["decided"][0] == found["decided"][1] == len(found["cases"]) > 40
    assert found["batch"] == "rows from `inputs(batch=...)`"
    paths = {call["path"] for case in found["cases"] for call in case["calls"]}
    assert {"attention.q_proj", "gate", "inner_norm"} <= paths
    places = {call["place"] for case in found["cases"] for call in case["calls"]}
    assert all("qwen3_layer.py:" in place for place in places)


def test_a_rounding_that_a_compiler_drops_is_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "compiled.py"
    file.write_text(COMPILED)
    arguments = [f"{file}:swiglu", "--compile", "--batch", "1,4", "--repeats", "3"]
    _, found, out = _audit(arguments, tmp_path / "audit.json", capsys)
    (finding,) = [one for one in found["findings"] if one["code"] == "DET655"]
    assert "cause: dropped-rounding" in finding["message"]
    eager, compiled = found["whole"]
    assert (eager["form"], compiled["form"]) == ("eager", "compiled")
    assert any("(rounding)" in note for note in compiled["notes"])
    assert "compiled: 1 result in 3 equal runs" in out


def test_a_kernel_of_triton_is_seen_where_it_is_launched(tmp_path: Path) -> None:
    pytest.importorskip("triton")
    file = tmp_path / "launched.py"
    file.write_text(TRITON)
    command = [sys.executable, "-m", "lastbit", "audit", f"{file}:program", "--format", "json"]
    run = subprocess.run(
        command, capture_output=True, text=True, env={**os.environ, "TRITON_INTERPRET": "1"}
    )
    found = json.loads(run.stdout)
    (kernel,) = [case for case in found["cases"] if case["operator"] == "triton.halves"]
    assert kernel["calls"][0]["place"].endswith("launched.py:12")
    assert kernel["trials"][0]["distinct"] == 1
    assert kernel["gaps"] == [
        "not compared across batches: a launched kernel does not say which arguments count rows"
    ]
