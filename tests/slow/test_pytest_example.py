"""The example for pytest passes, its report says so, and its loose comparison is found out."""

import shutil
from pathlib import Path

from sessions import entries_of, run_session

from lastbit import cli

EXAMPLE = Path(__file__).parents[2] / "examples/test_with_lastbit.py"


def test_the_example_passes_with_every_assertion_in_its_report(tmp_path):
    shutil.copy(EXAMPLE, tmp_path)
    done = run_session(tmp_path, "--lastbit-report", "report.json", "-q", "-W", "error")
    assert done.returncode == 0, done.stdout
    found = entries_of(tmp_path / "report.json")
    assert {entry["assertion"] for entry in found} == {
        "assert_batch_invariant", "assert_bitwise", "assert_deterministic", "assert_ulp",
    }  # fmt: skip
    assert {entry["outcome"] for entry in found} == {"passed"}


def test_the_comparison_of_the_example_lets_six_faults_pass(capsys):
    assert cli.run(["tolerance", f"{EXAMPLE}:within_a_tenth", "-q"]) == 1
    assert capsys.readouterr().out == (
        "planted 12 faults: 6 caught, 6 passed: type, factor, epsilon, columns, divisor, fp8\n"
    )
