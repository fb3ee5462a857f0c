"""A file or a function that cannot be checked is named, with its line and what to do."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

TARGETS = {
    "missing file": (
        "nothing.py:before",
        "nothing.py: cannot be read: No such file or directory. Name a Python file.",
    ),
    "missing function": (
        "idea.py:befor",
        "idea.py: there is no function 'befor'. Did you mean 'before'?",
    ),
    "no function": (
        "idea.py:three",
        "idea.py: `three` is of type int, no function. Name a function.",
    ),
    "no name": ("idea.py", "'idea.py' names no function. Write idea.py:before."),
    "plan": ("a.toml", "'a.toml' names no function. It is a plan: write `lastbit lint a.toml`."),
}


@pytest.mark.parametrize("case", TARGETS)
def test_a_target_that_cannot_be_used_is_an_error(case: str, idea, capsys) -> None:
    target, expected = TARGETS[case]
    assert idea(target, "idea.py:after") == 2
    assert capsys.readouterr().err == f"{expected}\n"


FILES = {
    "syntax": (
        "def before(x:\n    pass\n",
        "bad.py:1:11: this is no Python: '(' was never closed.\n    def before(x:\n",
    ),
    "raises": (
        "import lastbit\n\nvalue = 1 / 0\n",
        "bad.py:3: the file raised ZeroDivisionError: division by zero.\n    value = 1 / 0\n",
    ),
    "exits": (
        "import sys\nsys.exit(3)\n",
        "bad.py:2: the file exits while it is loaded. Put what runs it under "
        '`if __name__ == "__main__":`.\n    sys.exit(3)\n',
    ),
    "empty": ("", "bad.py: there is no function 'before'. It defines no function.\n"),
}


@pytest.mark.parametrize("case", FILES)
def test_a_file_that_cannot_be_loaded_is_an_error_with_its_line(case: str, idea, capsys) -> None:
    text, expected = FILES[case]
    Path("bad.py").write_text(text, encoding="utf-8")
    assert idea("bad.py:before", "idea.py:after") == 2
    assert capsys.readouterr().err == expected


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (("--input", "x"), "'x' is no input; write 'x=bf16[M, 4096]'."),
        (("--symbol", "M=1", "--symbol", "M=2"), "'M' is given twice."),
        (("--input", "x=bf16[M]", "--input", "x=f32[M]"), "'x' is given twice."),
        (("--max-ulp", "bf16=1", "--max-ulp", "bf16=2"), "'bf16' is given twice."),
        (("--symbol", "Q=1"), "no size has the symbol 'Q'. Allowed: M."),
        (
            ("--max-ulp", "bf16=-1"),
            "max_ulp of bf16 is -1.0. Allowed: a number of ulp, at least 0.",
        ),
        (("--symbol", "M=big"), "'M=big' gives no sizes; write M=1..8192 or M=64."),
        (("--max-ulp", "bf16"), "'bf16' gives no ulp; write bf16=1."),
    ],
)
def test_an_option_that_cannot_be_read_is_bad_usage(arguments, expected, idea, capsys) -> None:
    assert idea("idea.py:before", "idea.py:after", *arguments) == 2
    assert expected in capsys.readouterr().err


def test_help_teaches_and_loads_nothing_heavy() -> None:
    done = subprocess.run(
        [sys.executable, "-X", "importtime", "-m", "lastbit", "check", "--help"],
        capture_output=True,
        text=True,
        check=True,
    )
    assert "lastbit check idea.py:before idea.py:after" in done.stdout
    assert "before.inputs = " in done.stdout
    imported = {line.rpartition("|")[2].strip() for line in done.stderr.splitlines()}
    assert "lastbit.cli" in imported
    assert not {"numpy", "torch", "mpmath", "ml_dtypes"} & imported


def test_a_function_is_written_without_numpy() -> None:
    code = (
        "import sys, lastbit\n"
        "x = lastbit.bf16('M', 64).range(-1, 1), lastbit.exp, lastbit.pi * 2, lastbit.Spec\n"
        "print(sorted({'numpy', 'torch', 'mpmath'} & sys.modules.keys()))"
    )
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert out.stdout.strip() == "[]"
