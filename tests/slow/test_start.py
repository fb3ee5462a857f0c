"""What a command imports: `lint` does without torch."""

import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow


def test_lint_never_imports_torch():
    plan = Path(__file__).parents[2] / "examples/qwen3_8b_ffn.toml"
    command = [sys.executable, "-X", "importtime", "-m", "lastbit", "lint", plan]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert done.returncode == 1  # the example has bad branches
    imported = {line.rpartition("|")[2].strip() for line in done.stderr.splitlines()}
    assert "lastbit.lint" in imported
    assert not {name for name in imported if name.split(".")[0] == "torch"}
