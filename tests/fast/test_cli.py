"""The command line: light to start, honest in its exit codes, and never half a file.

The library functions behind the commands are replaced here, so that only the command line is
tested.
"""

import json
import os
import pty
import subprocess
import sys
import types
from datetime import date
from pathlib import Path

import pytest

from lastbit import cli
from lastbit.commands.lint import chosen
from lastbit.errors import InputError, Place, Problem
from lastbit.report.json import render as render_json
from lastbit.report.text import last_line, render
from lastbit.result import Result, read_result

SAMPLE_PATH = Path(__file__).parents[1] / "data/lint_sample.json"
SAMPLE = read_result(str(SAMPLE_PATH))
CLEAN = Result.of("lint", SAMPLE.steps[2:3], [], {})
FORMATS = "text, json, sarif, junit, github, markdown, html"


@pytest.fixture
def lint(monkeypatch):
    """Replace the linter by one that returns the sample, and return how it was called."""
    seen = {"result": SAMPLE}

    def lint_plans(plans, **options):
        seen.update(plans=plans, **options)
        if isinstance(seen["result"], BaseException):
            raise seen["result"]
        return seen["result"]

    fake = types.ModuleType("lastbit.lint")
    fake.lint_plans = lint_plans
    monkeypatch.setitem(sys.modules, "lastbit.lint", fake)
    for name in ("NO_COLOR", "FORCE_COLOR", "SOURCE_DATE_EPOCH"):
        monkeypatch.delenv(name, raising=False)
    return seen


def _python(*arguments, **options):
    command = [sys.executable, *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, **options)


HEAVY = {"numpy", "torch", "mpmath", "ml_dtypes"}


def _imported(done):
    """Return the modules in the report of `-X importtime`."""
    return {line.rpartition("|")[2].strip() for line in done.stderr.splitlines()}


def test_help_names_every_command_and_imports_nothing_heavy():
    done = _python("-X", "importtime", "-m", "lastbit", "--help")
    assert done.returncode == 0
    for name, text in cli.COMMANDS.items():
        assert f"  {name} " in done.stdout
        assert text in done.stdout
    imported = _imported(done)
    assert "lastbit.cli" in imported
    assert not HEAVY & imported
    assert not {module for module in imported if module.startswith("lastbit.commands")}


@pytest.mark.parametrize(
    "arguments", [["rules"], ["rules", "--format", "json"], ["explain", "RED201"]]
)
def test_looking_up_rules_imports_nothing_heavy(arguments):
    done = _python("-X", "importtime", "-m", "lastbit", *arguments)
    assert (done.returncode, "RED201" in done.stdout) == (0, True), done.stderr[-500:]
    imported = _imported(done)
    assert "lastbit.registry" in imported
    assert not HEAVY & imported


@pytest.mark.parametrize("name", sorted(cli.COMMANDS))
def test_each_command_has_help(name, capsys):
    assert cli.run([name, "--help"]) == 0
    assert capsys.readouterr().out.startswith(f"Usage: lastbit {name} ")


def test_version(capsys):
    assert cli.run(["--version"]) == 0
    assert capsys.readouterr().out == "lastbit, version 0.1.0\n"


def test_an_unknown_command_is_answered_with_the_nearest(capsys):
    assert cli.run(["lnit"]) == 2
    assert "no command 'lnit'. Did you mean 'lint'?" in capsys.readouterr().err


def test_lint_prints_the_report_and_exits_with_1(lint, capsys):
    assert cli.run(["lint", "a.toml", "b.toml", "--seed", "7", "--today", "2026-01-31"]) == 1
    assert capsys.readouterr() == (render(SAMPLE), "")
    assert lint["plans"] == ("a.toml", "b.toml")
    assert (lint["seed"], lint["today"], lint["progress"]) == (7, date(2026, 1, 31), None)


def test_a_clean_result_exits_with_0(lint, capsys):
    lint["result"] = CLEAN
    assert cli.run(["lint", "a.toml"]) == 0
    assert capsys.readouterr().out == render(CLEAN)


def test_lint_prints_json(lint, capsys):
    assert cli.run(["lint", "a.toml", "--format", "json"]) == 1
    assert json.loads(capsys.readouterr().out) == json.loads(SAMPLE_PATH.read_text())


def test_quiet_prints_the_last_line_only(lint, capsys):
    assert cli.run(["lint", "a.toml", "-q"]) == 1
    assert capsys.readouterr().out == last_line(SAMPLE) + "\n"


def test_outputs_are_written_whole_and_name_the_replay(lint, tmp_path, capsys):
    as_json, as_text = tmp_path / "r.json", tmp_path / "r.txt"
    as_json.write_text("old")
    as_json.chmod(0o640)
    code = cli.run(["lint", "a", "--output", f"json={as_json}", "--output", f"text={as_text}"])
    assert code == 1
    assert as_json.read_text() == render_json(SAMPLE)
    assert as_json.stat().st_mode & 0o777 == 0o640
    assert as_text.read_text() == render(SAMPLE)
    assert f"lastbit replay {as_json}#t.drop-rounding" in capsys.readouterr().out
    assert sorted(path.name for path in tmp_path.iterdir()) == ["r.json", "r.txt"]


def test_a_file_that_cannot_be_written_is_bad_usage(lint, tmp_path, capsys):
    path = tmp_path / "none" / "r.json"
    assert cli.run(["lint", "a.toml", "--output", f"json={path}"]) == 2
    assert capsys.readouterr().err == f"{path}: cannot be written: No such file or directory.\n"


def test_a_device_is_written_to_as_it_is(lint):
    assert cli.run(["lint", "a.toml", "-q", "--output", f"json={os.devnull}"]) == 1
    assert not Path(os.devnull).is_file()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--output", "yaml=x"], f"'yaml=x' is no FORMAT=PATH; formats: {FORMATS}."),
        (["--output", "json"], f"'json' is no FORMAT=PATH; formats: {FORMATS}."),
        (["--select", "RAD"], "'RAD' is no code; write one as RED201, or a family: RED."),
        (["--select", "COST9"], "'COST9' is no code; write one as RED201, or a family: RED."),
        (["--ignore", "COS"], "'COS' is no code; write one as RED201, or a family: RED."),
        (["--ignore", "red201"], "'red201' is no code; write one as RED201, or a family: RED."),
        (["--today", "31.1.2026"], "'31.1.2026' is no date; write one as 2026-01-31."),
    ],
)
def test_bad_options_are_refused_in_words(lint, capsys, arguments, message):
    assert cli.run(["lint", "a.toml", *arguments]) == 2
    assert message in " ".join(capsys.readouterr().err.split())


@pytest.mark.parametrize(
    ("select", "ignore", "codes"),
    [
        ((), (), ["DOM301", "RED201", "FUS102"]),
        (("FUS", "DOM301"), (), ["DOM301", "FUS102"]),
        ((), ("FUS102",), ["DOM301", "RED201"]),
        (("RED",), ("RED201",), []),
    ],
)
def test_codes_select_and_ignore_findings_by_prefix(select, ignore, codes):
    assert [finding.code for finding in chosen(SAMPLE, select, ignore).findings] == codes


def test_an_ignored_error_does_not_fail_the_run(lint):
    assert cli.run(["lint", "a.toml", "--ignore", "FUS102"]) == 0


def test_the_day_comes_from_source_date_epoch(lint, monkeypatch, capsys):
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "86400")
    cli.run(["lint", "a.toml"])
    assert lint["today"] == date(1970, 1, 2)
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "soon")
    assert cli.run(["lint", "a.toml"]) == 2
    message = "SOURCE_DATE_EPOCH is 'soon'; it must be a number of seconds."
    assert message in capsys.readouterr().err


def test_bad_input_is_text_on_stderr_and_exit_code_2(lint, capsys):
    lint["result"] = InputError([Problem("unknown operator `mul2`", "", Place("a.toml", 3, 7))])
    assert cli.run(["lint", "a.toml"]) == 2
    assert capsys.readouterr() == ("", "a.toml:3:7: unknown operator `mul2`.\n")


def test_a_defect_is_not_taken_for_findings(lint, capsys):
    lint["result"] = ZeroDivisionError("a defect")
    assert cli.run(["lint", "a.toml"]) == 3
    error = capsys.readouterr().err
    assert "ZeroDivisionError: a defect" in error
    assert error.endswith("lastbit: this is a defect of lastbit; nothing was decided.\n")


def test_an_interrupt_is_one_line_and_130(lint, capsys):
    lint["result"] = KeyboardInterrupt()
    assert cli.run(["lint", "a.toml"]) == 130
    assert capsys.readouterr() == ("", "lastbit: interrupted\n")


def test_an_exit_of_somebody_elses_code_is_named(lint, capsys):
    lint["result"] = SystemExit(0)
    assert cli.run(["lint", "a.toml"]) == 2
    first = capsys.readouterr().err.split("\n")[0]
    assert "test_cli.py:" in first
    assert first.endswith(": code asks Python to exit, and nothing was decided. Leave it out.")


CLOSED = """import os, sys
os.close({0})
os.execv(sys.executable, [sys.executable, "-m", "lastbit", "rules"])
"""


def test_a_closed_output_is_said():
    done = _python("-c", CLOSED.format(1))
    assert done.returncode == 2
    assert done.stderr == "lastbit: the output is closed. Write > /dev/null to go without it.\n"


def test_a_closed_stream_of_errors_changes_nothing():
    done = _python("-c", CLOSED.format(2))
    assert (done.returncode, done.stderr) == (0, "")
    assert "RED201" in done.stdout


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")
def test_a_full_output_is_said():
    command = [sys.executable, "-m", "lastbit", "rules"]
    with open("/dev/full", "wb") as full:
        done = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, timeout=60)
    assert done.returncode == 2
    expected = b"lastbit: the output cannot be written: No space left on device.\n"
    assert done.stderr == expected


def test_a_reader_that_goes_away_is_no_error():
    read, write = os.pipe()
    os.close(read)
    command = [sys.executable, "-m", "lastbit", "--help"]
    with open(write, "wb") as gone:
        done = subprocess.run(command, stdout=gone, stderr=subprocess.PIPE, timeout=60)
    assert (done.returncode, done.stderr) == (141, b"")


@pytest.mark.parametrize(
    ("variables", "colored"),
    [
        ({}, False),
        ({"FORCE_COLOR": "1"}, True),
        ({"FORCE_COLOR": "0"}, False),
        ({"FORCE_COLOR": "1", "NO_COLOR": "1"}, False),
        ({"FORCE_COLOR": "1", "NO_COLOR": ""}, True),
    ],
)
def test_colour_follows_the_two_variables(lint, monkeypatch, capsys, variables, colored):
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    cli.run(["lint", "a.toml"])
    assert capsys.readouterr().out == render(SAMPLE, color=colored)


def test_colour_follows_the_terminal(monkeypatch):
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.delenv("FORCE_COLOR", raising=False)
    main, terminal = pty.openpty()
    with open(terminal, "w") as stream:
        monkeypatch.setenv("TERM", "xterm")
        assert cli.wants_color(stream)
        monkeypatch.setenv("TERM", "dumb")
        assert not cli.wants_color(stream)
    os.close(main)


def test_progress_goes_to_stderr_on_a_terminal_only(lint, monkeypatch, capsys):
    monkeypatch.setattr("sys.stderr.isatty", lambda: True, raising=False)
    cli.run(["lint", "a.toml"])
    capsys.readouterr()
    lint["progress"](1, 2, "t.drop-rounding")
    lint["progress"](2, 2, "q")
    assert capsys.readouterr() == ("", "\r\x1b[K1 of 2  t.drop-rounding\r\x1b[K")
    cli.run(["lint", "a.toml", "--quiet"])
    assert lint["progress"] is None


@pytest.fixture
def replay(monkeypatch):
    """Replace the replay by one that says what it was asked."""

    class Replayed:
        agrees = True

        def __str__(self):
            return "0x3f43 -> 0x3f44"

    fake = types.ModuleType("lastbit.replaying")
    fake.asked = []
    fake.replay = lambda path, step: fake.asked.append((path, step)) or Replayed()
    fake.script = lambda path, step: f"# {path} {step}\n"
    fake.Replayed = Replayed
    monkeypatch.setitem(sys.modules, "lastbit.replaying", fake)
    return fake


def test_replay_splits_at_the_last_hash(replay, capsys):
    assert cli.run(["replay", "a#b.json#t.drop-rounding"]) == 0
    assert replay.asked == [("a#b.json", "t.drop-rounding")]
    assert capsys.readouterr().out == "0x3f43 -> 0x3f44\n"


def test_a_replay_with_other_bits_exits_with_1(replay, monkeypatch):
    monkeypatch.setattr(replay.Replayed, "agrees", False)
    assert cli.run(["replay", "r.json#q"]) == 1


def test_replay_prints_a_script(replay, capsys):
    assert cli.run(["replay", "r.json#q", "--script"]) == 0
    assert capsys.readouterr().out == "# r.json q\n"


@pytest.mark.parametrize("place", ["r.json", "#q", "r.json#"])
def test_replay_wants_a_file_and_a_step(replay, capsys, place):
    assert cli.run(["replay", place]) == 2
    assert f"{place!r} names no step; write RESULT#STEP." in capsys.readouterr().err
