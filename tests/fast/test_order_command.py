"""`lastbit order` in words and as JSON, and what it refuses."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from ordered import Array, stepped

import lastbit
from lastbit import cli
from lastbit.order import report
from lastbit.order.reveal import order_of_schedule
from lastbit.schedule import parse_schedule

EXACTLY = (
    "no term is lost beside M, wherever it stands: the sum is exact, or compensated, and its order "
    "cannot matter here"
)


def last(x: Array) -> Any:
    """Add left to right."""
    return np.cumsum(x, axis=-1)[..., -1]


@pytest.fixture
def sums(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "sums.py").write_text(
        "import numpy as np\n"
        "def mine(x): return np.cumsum(x, axis=-1)[..., -1]\n"
        "def other(x): return np.cumsum(np.sort(x))[-1]\n",
        encoding="utf-8",
    )
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])


@pytest.mark.usefixtures("sums")
def test_the_command_shows_the_order(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.run(["order", "sums.py:mine", "--n", "8"]) == 0
    assert capsys.readouterr().out == (
        "sums.py:mine: 8 elements of f32\n"
        "    schedule      seq\n"
        "    tree          7 steps of 2 terms, depth 7\n"
        f"    hash          {order_of_schedule('seq', 8).hash}\n"
        "    accumulator   f32: gives the function's bits on random vectors\n"
        f"    found         searched: {lastbit.reveal_order(last, 8).calls} calls "
        f"({lastbit.reveal_order(last, 8).checks} of them to check), "
        f"{lastbit.reveal_order(last, 8).probes} probes\n"
        "\n"
        "0 + 1 + ... + 7, left to right\n"
    )


@pytest.mark.usefixtures("sums")
def test_the_command_compares_two_orders(capsys: pytest.CaptureFixture[str]) -> None:
    base = ["order", "sums.py:mine", "--n", "32", "--no-draw"]
    assert cli.run([*base, "--against", "pairwise(8)"]) == 1
    words = "sums.py:mine adds (0-7) and 8; pairwise(8) adds (0-7) and (8-15)."
    assert capsys.readouterr().out.splitlines()[-1] == words
    assert cli.run([*base, "--against", "seq"]) == 0
    assert capsys.readouterr().out.splitlines()[-1] == "sums.py:mine and seq add in the same order."
    assert cli.run([*base, "--against", "numpy.sum"]) == 1
    words = "sums.py:mine adds 0 and 1; numpy.sum adds 0 and 8."
    assert capsys.readouterr().out.splitlines()[-1] == words


@pytest.mark.usefixtures("sums")
def test_the_command_gives_json(capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["order", "sums.py:mine", "--n", "4", "--format", "json"]
    assert cli.run([*arguments, "--against", "pairwise(1)"]) == 1
    found = json.loads(capsys.readouterr().out)
    assert found["schema"] == "lastbit.order/1"
    assert found["tree"]["steps"] == [[0, 1], [4, 2], [5, 3]]
    assert found["schedules"] == ["seq"]
    assert found["against"]["tree"]["steps"] == [[0, 1], [2, 3], [4, 5]]
    assert not found["against"]["same"]
    assert cli.run(["order", "sums.py:other", "--n", "30", "--format", "json"]) == 1
    found = json.loads(capsys.readouterr().out)
    assert found["tree"] is None
    assert found["finding"]["kind"] == "depends on the data"


def test_what_a_function_prints_is_no_result(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "loud.py"
    file.write_text("def loud(x):\n    print('loud')\n    return x.sum(-1)\n", encoding="utf-8")
    assert cli.run(["order", f"{file}:loud", "--n", "4", "--format", "json"]) == 0
    shown = capsys.readouterr()
    assert json.loads(shown.out)["n"] == 4
    assert "loud" in shown.err


@pytest.mark.usefixtures("sums")
def test_the_command_says_why_there_is_no_tree(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.run(["order", "math.fsum", "--n", "9"]) == 1
    assert capsys.readouterr().out == f"`math.fsum` has no fixed tree: {EXACTLY}.\nkind: exact\n"


@pytest.mark.usefixtures("sums")
def test_the_command_refuses_bad_input(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.run(["order", "sums.py:nime"]) == 2
    assert "there is no function 'nime'" in capsys.readouterr().err
    assert cli.run(["order", "numpy.sum", "--as", "f31"]) == 2
    assert capsys.readouterr().err.startswith("unknown format 'f31'.")
    assert cli.run(["order", "numpy.sum", "--against", "pairwize(8)"]) == 2
    assert "Did you mean 'pairwise'?" in capsys.readouterr().err


def test_long_schedules_and_unknown_steps_are_said_in_words(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert cli.run(["order", "numpy.sum", "--n", "300"]) == 0
    text = "none of the known forms; the explicit tree is in --format json"
    assert text in capsys.readouterr().out
    order = lastbit.reveal_order(stepped(parse_schedule("fused(7, hopper/16)"), 21, kept=30), 21)
    shown = report.text(order)
    assert "no known machine does its steps: fused(7, ?)" in shown
    assert "keeps 30 binary digits below its largest term\n" in shown
