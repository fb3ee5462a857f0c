"""`lastbit report` renders a result again: the same bytes that the run itself writes."""

import json
from pathlib import Path

import pytest
from hostile_results import SAMPLE, SAMPLE_PATH, nasty

from lastbit import cli
from lastbit.audit.records import Audit, to_json
from lastbit.audit.text import render as audit_text
from lastbit.report import FORMATS, renderer
from lastbit.report.json import render as render_json
from lastbit.report.text import last_line, render
from lastbit.result import Finding, Location, Result

WRITTEN = [name for name in FORMATS if name != "text"]


def test_text_is_the_default_and_replays_the_file(capsys):
    assert cli.run(["report", SAMPLE_PATH]) == 1
    assert capsys.readouterr().out == render(SAMPLE, json_path=SAMPLE_PATH)


def test_quiet_gives_the_last_line(capsys):
    assert cli.run(["report", SAMPLE_PATH, "-q"]) == 1
    assert capsys.readouterr().out == last_line(SAMPLE) + "\n"


@pytest.mark.parametrize("name", WRITTEN)
def test_a_format_is_printed_as_its_renderer_gives_it(capsys, name):
    assert cli.run(["report", SAMPLE_PATH, "--format", name]) == 1
    assert capsys.readouterr().out == renderer(name)(SAMPLE)


def test_several_formats_are_written_at_once(tmp_path, capsys):
    names = [*WRITTEN, "text"]
    options = [f"--output={name}={tmp_path / name}" for name in names]
    assert cli.run(["report", SAMPLE_PATH, "-q", *options]) == 1
    for name in WRITTEN:
        assert (tmp_path / name).read_bytes() == renderer(name)(SAMPLE).encode()
    assert (tmp_path / "text").read_text() == render(SAMPLE, json_path=SAMPLE_PATH)
    assert (tmp_path / "json").read_bytes() == Path(SAMPLE_PATH).read_bytes()
    capsys.readouterr()


def test_a_clean_result_exits_with_zero(tmp_path, capsys):
    path = tmp_path / "clean.json"
    path.write_text(render_json(Result.of("lint", SAMPLE.steps[2:3], [], {})), encoding="utf-8")
    assert cli.run(["report", str(path), "--format", "github"]) == 0
    assert capsys.readouterr().out.startswith("decided 1 of 1 step")


@pytest.mark.parametrize("name", ["sarif", "junit", "github", "markdown"])
def test_hostile_names_can_be_written_in_every_format(tmp_path, name):
    from lastbit.files import write_atomically

    write_atomically(str(tmp_path / "out"), renderer(name)(nasty()))
    assert (tmp_path / "out").read_bytes() == renderer(name)(nasty()).encode()


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"{", "is no JSON: Expecting property name enclosed in double quotes"),
        (b"\xff\xfe\xff", "is no JSON: "),
        (b"[" * 100_000, "is nested too deeply. Make one with `lastbit lint PLAN"),
        (b"[]", "`schema` must be 'lastbit.result/1', not None"),
        (b'{"schema": "lastbit.result/2"}', "must be 'lastbit.result/1', not 'lastbit.result/2'"),
        (
            b'{"schema": "lastbit.compare/1"}',
            "is a result of `lastbit compare`, not of lint, check or audit. "
            "That command has its own --format.",
        ),
        (b'{"schema": "lastbit.audit/1"}', "Make one with `lastbit audit TARGET"),
    ],
)
def test_what_is_no_result_is_refused(tmp_path, capsys, content, said):
    path = tmp_path / "r.json"
    path.write_bytes(content)
    assert cli.run(["report", str(path)]) == 2
    error = capsys.readouterr().err
    assert error.startswith(f"{path}: ")
    assert said in error


def test_a_file_that_is_not_there_is_refused(capsys):
    assert cli.run(["report", "none.json"]) == 2
    assert capsys.readouterr().err == (
        "none.json: cannot be read: No such file or directory. "
        "Make one with `lastbit lint PLAN --output json=FILE`.\n"
    )


@pytest.fixture
def audit(tmp_path) -> tuple[str, Audit]:
    """Return the result of an audit in a file, and the same as a record."""
    place = Location("model.py", 44)
    found = Finding("DET690", "error", "`mm` could not be run again", place)
    record = Audit("model.py:f", "cpu", "M", (1, 2), 2, (1,), {"seed": "0"}, (), 0, 3, (found,))
    path = tmp_path / "audit.json"
    path.write_text(json.dumps(to_json(record)), encoding="utf-8")
    return str(path), record


def test_an_audit_is_rendered_by_its_own_text(audit, capsys):
    path, record = audit
    assert cli.run(["report", path]) == record.exit_code == 1
    assert capsys.readouterr().out == audit_text(record)
    assert cli.run(["report", path, "--format", "json"]) == 1
    assert json.loads(capsys.readouterr().out) == to_json(record)


@pytest.mark.parametrize("option", ["--format=sarif", "--output=sarif=x"])
def test_an_audit_in_another_format_is_refused(audit, capsys, option):
    path, _ = audit
    assert cli.run(["report", path, option]) == 2
    assert capsys.readouterr().err == (
        f"{path}: is a result of `audit`, which 'sarif' does not show. Formats: text, json.\n"
    )
