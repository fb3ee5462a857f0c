"""`lastbit predict matmul` that is interrupted says so in a line, and leaves no file."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow


@pytest.mark.skipif(os.name == "nt", reason="signals")
def test_an_interrupt_leaves_no_file(tmp_path: Path) -> None:
    arguments = ["--machine", "hopper", "--as", "bf16", "--shape", "4096,4096,4096"]
    arguments += ["--seed", "0", "--out", "c.raw"]
    command = [sys.executable, "-m", "lastbit", "predict", "matmul", *arguments]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    with subprocess.Popen(
        command, cwd=tmp_path, env=environment, stderr=subprocess.PIPE, text=True
    ) as process:
        time.sleep(2.5)  # it takes many times as long
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=30)
    assert process.returncode == 130
    assert err.endswith("lastbit: interrupted\n")
    assert list(tmp_path.iterdir()) == []
