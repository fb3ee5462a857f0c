"""`torchrun` spreads an audit over processes; their results join to the audit of one process.

A target that is one compiled graph has no operators to spread, and is tried as a whole.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("torch")

PROGRAM = """
import torch

@torch.library.custom_op("spread::total", mutates_args=())
def total(x: torch.Tensor) -> torch.Tensor:
    pieces = x.chunk(4 if x.shape[0] > 4 else 1, 1)
    return torch.stack([torch.cumsum(piece, 1)[:, -1] for piece in pieces]).sum(0)

def program(x):
    return total(x.relu() * 3).sqrt() + x.abs().amax(1)

def graph(x):
    return torch.compile(lambda y: (y * 2).relu() + 1)(x)

graph.inputs = program.inputs = (torch.randn(8, 64, generator=torch.Generator().manual_seed(0)),)
"""
OPTIONS = ["--batch", "1,2,8", "--repeats", "3", "--threads", "1", "--time-limit", "0"]


def run(folder: Path, *command: str) -> int:
    scripts = str(Path(sys.executable).parent)
    environment = {**os.environ, "PATH": f"{scripts}{os.pathsep}{os.environ['PATH']}"}
    environment |= {"OMP_NUM_THREADS": "1"}  # as torchrun sets it
    ran = subprocess.run(
        command, cwd=folder, env=environment, capture_output=True, text=True, check=False
    )
    assert "Traceback" not in ran.stdout, ran.stdout
    return ran.returncode


def test_two_processes_of_torchrun_make_the_audit_of_one(tmp_path: Path) -> None:
    (tmp_path / "model.py").write_text(PROGRAM)
    audit = ["lastbit", "audit", "model.py:program", *OPTIONS]
    assert run(tmp_path, *audit, "--output", "json=whole.json") == 1
    torchrun = ["torchrun", "--nproc-per-node", "2", "--master-port", "0", "--no-python"]
    # A shard with a finding ends with 0: torchrun would end the others before they are written.
    assert run(tmp_path, *torchrun, *audit, "--output", "json=part-{shard}.json") == 0
    parts = ["part-1-of-2.json", "part-2-of-2.json"]
    assert run(tmp_path, "lastbit", "merge", *parts, "--output", "json=merged.json") == 1
    whole, merged = (
        json.loads((tmp_path / name).read_text()) for name in ("whole.json", "merged.json")
    )
    assert [case["operator"] for case in whole["cases"] if case["codes"]] == [
        "spread.total.default"
    ]
    assert merged == whole
    assert run(tmp_path, "lastbit", "merge", parts[0], "--output", "json=half.json") == 1
    half = json.loads((tmp_path / "half.json").read_text())
    lost = len(whole["cases"]) - len(half["cases"])
    said = f"{lost} of {len(whole['cases'])} operators were audited by no shard; missing: 2/2"
    assert said in half["gaps"]


def test_a_target_that_is_one_compiled_graph_is_tried_as_a_whole(tmp_path: Path) -> None:
    (tmp_path / "model.py").write_text(PROGRAM)
    audit = ["lastbit", "audit", "model.py:graph", *OPTIONS, "--output", "json=audit.json"]
    assert run(tmp_path, *audit) == 1  # no operator was decided
    found = json.loads((tmp_path / "audit.json").read_text())
    assert found["cases"] == []
    assert [one["kind"] for one in found["whole"][0]["trials"]] == ["repeats", "batch"]
    assert found["gaps"] == [
        "1 graph that torch.compile made ran: of their kernels only the library's operators are "
        "seen; none was, so only the target as a whole was tried"
    ]
