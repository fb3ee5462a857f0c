"""The pytest plugin costs nothing to load, and its report names every assertion that ran."""

import json
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
from sessions import entries_of, run_session, written

ROOT = Path(__file__).parents[2]
HEAVY = {"numpy", "torch", "mpmath", "ml_dtypes", "click"}


@pytest.fixture(scope="module")
def session(tmp_path_factory):
    """Run the planted tests once, with a report."""
    folder = tmp_path_factory.mktemp("session")
    written(folder)
    return folder, run_session(folder, "--lastbit-report", "report.json", "-q")


def test_pytest_finds_the_plugin_by_its_entry_point():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert project["entry-points"]["pytest11"] == {"lastbit": "lastbit.pytest_plugin"}


def test_the_start_of_a_session_loads_nothing_heavy(tmp_path):
    code = (
        "import sys, pytest\n"
        "pytest.main(['-q', '-p', 'lastbit.pytest_plugin', '-s', '-p', 'no:cacheprovider'])\n"
        "print('loaded', *sorted(sys.modules))"
    )
    done = subprocess.run(
        [sys.executable, "-X", "importtime", "-c", code],
        cwd=tmp_path,
        env={"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1", "PATH": ""},
        capture_output=True,
        text=True,
    )
    assert "no tests ran" in done.stdout, done.stdout
    loaded = done.stdout.partition("loaded ")[2].split()
    assert not HEAVY & {*loaded}
    assert {name for name in loaded if name.partition(".")[0] == "lastbit"} == {
        "lastbit",
        "lastbit.asserting",
        "lastbit.asserting.journal",
        "lastbit.errors",
        "lastbit.files",
        "lastbit.pytest_plugin",
    }
    taken = {
        parts[2].strip(): int(parts[1])
        for line in done.stderr.splitlines()
        if (parts := line.split("|"))[1:] and parts[1].strip().isdigit()
    }
    ours = ("lastbit.asserting.journal", "lastbit.errors", "lastbit.files")
    assert sum(taken[name] for name in ours) < taken["pytest"] / 2  # microseconds


def test_failures_read_as_the_assertion_and_not_as_its_insides(session):
    _, done = session
    assert done.returncode == 1
    assert "E       AssertionError: the bits differ (assert_bitwise)" in done.stdout
    assert "worst     [1, 2]: 0x40c00000 -> 0x41000000 (6.0 -> 8.0)" in done.stdout
    assert ">       assert_bitwise(ROWS, checked)" in done.stdout  # the last line of the traceback
    assert "asserting/tensors.py" not in done.stdout
    assert "assert_bitwise would prove nothing: every element of both sides is zero." in done.stdout


def test_the_report_holds_every_assertion_under_its_test(session):
    folder, done = session
    found = [
        (entry["test"].removeprefix("test_planted.py::"), entry["assertion"], entry["outcome"])
        for entry in entries_of(folder / "report.json")
    ]
    assert found == [
        ("test_drawn", "assert_deterministic", "failed"),
        ("test_equal", "assert_bitwise", "passed"),
        ("test_equal", "assert_batch_invariant", "passed"),
        ("test_equal", "assert_ulp", "passed"),
        ("test_moved", "assert_bitwise", "passed"),
        ("test_moved", "assert_bitwise", "failed"),
        ("test_moved", "assert_ulp", "passed"),
        ("test_zeros[a]", "assert_bitwise", "passed"),
        ("test_zeros[b]", "assert_bitwise", "refused"),
    ]
    assert "lastbit: 9 assertions (6 passed, 2 failed, 1 refused): report.json" in done.stdout


def test_the_report_holds_the_figures(session):
    folder, _ = session
    content = json.loads((folder / "report.json").read_text(encoding="utf-8"))
    assert content["schema"] == "lastbit.pytest/1"
    assert content["summary"] == {"assertions": 9, "passed": 6, "failed": 2, "refused": 1}
    drawn, _, rows, near, _, moved, _, masked, zeros = content["assertions"]
    (one,) = moved["comparisons"]
    assert (one["relation"], one["other_bits"], one["max_ulp"]) == ("differs", 1, 1 << 22)
    assert one["worst"][0]["a"] == "0x40c00000"
    assert drawn["runs"] == {"repeats": 20, "differ": list(range(2, 21))}
    assert rows["runs"] == {"rows": 4, "sizes": [1, 2, 3], "differ": []}
    assert len(rows["comparisons"]) == 3 + 2 + 2
    assert near["allowed"] == {"max_ulp": 1, "format": "f32"}
    assert masked["trivial_because"] == "masked"
    assert zeros["refused_because"] == "every element of both sides is zero"


def test_equal_sessions_write_equal_bytes(session, tmp_path):
    written(tmp_path)
    run_session(tmp_path, "--lastbit-report", str(tmp_path / "again.json"))
    assert (tmp_path / "again.json").read_bytes() == (session[0] / "report.json").read_bytes()


def test_without_the_option_nothing_is_written(tmp_path):
    written(tmp_path)
    done = run_session(tmp_path, "-k", "equal")
    assert done.returncode == 0
    assert "lastbit" not in re.sub(r"plugins:.*", "", done.stdout)
    assert [path.name for path in tmp_path.glob("*.json")] == []


def test_a_report_that_cannot_be_written_is_told_before_the_tests(tmp_path):
    path, _ = written(tmp_path)
    done = run_session(tmp_path, "--lastbit-report", "none/report.json", path.name)
    assert done.returncode == 4
    assert done.stderr.strip() == (
        "ERROR: --lastbit-report: none/report.json: cannot be written: No such file or directory."
    )


def test_a_report_whose_folder_went_away_ends_in_an_error(tmp_path):
    (tmp_path / "out").mkdir()
    (tmp_path / "test_a.py").write_text("def test_a():\n    __import__('os').rmdir('out')\n")
    done = run_session(tmp_path, "--lastbit-report", "out/report.json", "-q")
    assert done.returncode == 4
    path = tmp_path / "out/report.json"
    problem = f"--lastbit-report: {path}: cannot be written: No such file or directory."
    assert problem in done.stdout.splitlines()


def test_what_is_compared_outside_of_tests_is_in_the_report_too(tmp_path):
    (tmp_path / "test_a.py").write_text(
        "import numpy as np, lastbit\n"
        "lastbit.assert_bitwise(np.arange(3), np.arange(3))\n"
        "def test_a():\n    pass\n"
    )
    done = run_session(tmp_path, "--lastbit-report", "report.json", "-q")
    assert done.returncode == 0, done.stdout
    (entry,) = entries_of(tmp_path / "report.json")
    assert (entry["test"], entry["outcome"]) == (None, "passed")


def test_a_session_without_assertions_says_so(tmp_path):
    (tmp_path / "test_a.py").write_text("def test_a():\n    pass\n")
    done = run_session(tmp_path, "--lastbit-report", "report.json", "-q")
    assert "lastbit: 0 assertions (nothing was asserted): report.json" in done.stdout
    assert entries_of(tmp_path / "report.json") == []
