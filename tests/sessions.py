"""Sessions of pytest that a test starts, with the plugin and nothing else of this environment."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

TESTS = """
import numpy as np
import pytest
from lastbit import assert_batch_invariant, assert_bitwise, assert_deterministic, assert_ulp

ROWS = np.arange(1, 13, dtype=np.float32).reshape(4, 3)


@pytest.fixture
def checked():
    assert_bitwise(ROWS, ROWS.copy())
    yield ROWS.copy()
    assert_ulp(ROWS, ROWS.copy(), max_ulp=1, format="f32")


def test_equal(checked, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert_batch_invariant(lambda x: x / 3, checked)


def test_moved(checked):
    checked[1, 2] = 8
    assert_bitwise(ROWS, checked)


@pytest.mark.parametrize("side", ["a", "b"])
def test_zeros(side):
    assert_bitwise(0 * ROWS, 0 * ROWS, trivial_because="masked" if side == "a" else None)


def test_drawn():
    rng = np.random.default_rng(0)
    assert_deterministic(lambda x: x + rng.random(x.shape), ROWS)
"""
"""Tests that pass, fail and are refused."""


def run_session(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run pytest in a folder."""
    command = [sys.executable, "-m", "pytest", "-p", "lastbit.pytest_plugin", "-p",
               "no:cacheprovider", "--rootdir", str(folder), *arguments]  # fmt: skip
    environment = {**os.environ, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1", "NO_COLOR": "1"}
    for name in ("PYTEST_XDIST_WORKER", "PYTEST_XDIST_WORKER_COUNT", "PYTEST_ADDOPTS"):
        environment.pop(name, None)
    return subprocess.run(
        command, cwd=folder, env=environment, capture_output=True, text=True, timeout=120
    )


def written(folder: Path) -> tuple[Path, Path]:
    """Write the tests, and return their file and where a report may go."""
    path = folder / "test_planted.py"
    path.write_text(TESTS, encoding="utf-8")
    return path, folder / "report.json"


def entries_of(report: Path) -> list[dict[str, Any]]:
    """Return the assertions of a report."""
    found: list[dict[str, Any]] = json.loads(report.read_text(encoding="utf-8"))["assertions"]
    return found
