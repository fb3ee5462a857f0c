"""The models in `tests/data/pt2`, and what the command says of them.

`tests/make_pt2.py` made the files with torch 2.13.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from lastbit import cli

DATA = Path(__file__).parent / "data" / "pt2"
LAYER, FUSED = str(DATA / "qwen3_layer.pt2"), str(DATA / "qwen3_layer_fused_norm.pt2")


def run(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str]:
    """Run the command, and return its exit code with all that it printed."""
    code = cli.run(list(arguments))
    printed = capsys.readouterr()
    return code, printed.out + printed.err
