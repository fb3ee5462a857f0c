"""`lastbit audit` on the command line: what it prints, writes and refuses."""

from __future__ import annotations

import json
import time
from pathlib import Path

import pytest

pytest.importorskip("torch._dynamo")  # by which a dispatch mode is entered

import torch

from lastbit import cli
from lastbit.audit import ending
from lastbit.commands import audit as command
from lastbit.errors import InputError

PROGRAM = """
import torch

COUNT = [0]

@torch.library.custom_op("commanded::{name}", mutates_args=())
def other(x: torch.Tensor) -> torch.Tensor:
    COUNT[0] += 1
    return x + COUNT[0]

def clean(x):
    return x.relu() * 2

def dirty(x):
    return other(x).relu()

def endless(x):
    while True:
        x = x + 1

def picky(x):
    if len(x) == 2:
        raise SystemExit
    return x.relu()

def made(x):
    return x.relu() * 2

def setting(x):
    torch.set_default_dtype(torch.float64)
    torch.set_num_threads(3)
    return x.relu() * torch.ones(1)

clean.inputs = dirty.inputs = endless.inputs = (torch.arange(32.0).reshape(4, 8) - 9,)
made.inputs = lambda batch: (torch.arange(8.0 * batch).reshape(batch, 8) - 9,)
picky.inputs = setting.inputs = lambda batch=4: made.inputs(batch)
"""
FEW = ["--batch", "1,2,4", "--repeats", "3", "--threads", "1"]


@pytest.fixture
def program(tmp_path: Path) -> str:
    path = tmp_path / "program.py"
    path.write_text(PROGRAM.replace("{name}", f"other{abs(hash(tmp_path))}"))
    return str(path)


def test_a_clean_program_ends_with_0(program: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.run(["audit", f"{program}:clean", *FEW]) == 0
    assert capsys.readouterr().out == (
        f"{program}:clean, eager: 1 result in 3 equal runs; 1 result of row 0 in batches of 1, 2, "
        "4\n\n"
        "decided 2 of 2 operators; no culprits; batches of 1, 2, 4, 3 equal runs\n"
    )


def test_a_culprit_ends_with_1_and_its_line_is_named(
    program: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "audit.json"
    assert cli.run(["audit", f"{program}:dirty", *FEW, "--output", f"json={path}"]) == 1
    out = capsys.readouterr().out
    assert f"{program}:15  DET651 `other" in out
    document = json.loads(path.read_text())
    assert document["schema"] == "lastbit.audit/1"
    assert document["findings"][0]["location"]["line"] == 15
    assert document["cases"][0]["cause"] == {
        "kind": "unknown",
        "text": "cause not found: 3 different results in 3 identical calls, and nothing shows that "
        "it adds in no fixed order",
        "before": "a set of 3 results or more",
        "after": None,
    }


def test_findings_are_chosen_by_code(program: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.run(["audit", f"{program}:dirty", *FEW, "-q", "--ignore", "DET65"]) == 0
    assert capsys.readouterr().out.startswith("decided 2 of 2 operators; no culprits")


def test_a_journal_spares_what_is_finished(
    program: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    journal = tmp_path / "audit.jsonl"
    arguments = ["audit", f"{program}:clean", *FEW, "--journal", str(journal), "--format", "json"]
    assert cli.run(arguments) == 0
    first, lines = capsys.readouterr().out, journal.read_text().splitlines()
    assert len(lines) == 3
    assert cli.run(arguments) == 0
    assert capsys.readouterr().out == first
    assert journal.read_text().splitlines() == lines


def test_a_journal_of_a_source_that_was_edited_since_is_refused(
    program: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    journal = tmp_path / "audit.jsonl"
    arguments = ["audit", f"{program}:clean", *FEW, "-q", "--journal", str(journal)]
    assert cli.run(arguments) == 0
    before = journal.read_bytes()
    Path(program).write_text(Path(program).read_text().replace("relu() * 2", "relu() * 3"))
    capsys.readouterr()
    assert cli.run(arguments) == 2
    assert capsys.readouterr().err == (
        f"{journal}:1: the journal is that of another source: {program}:clean was edited since. "
        "Give another file, or remove this one: what it keeps is of the old source.\n"
    )
    assert journal.read_bytes() == before


def test_a_shard_that_a_launcher_started_ends_with_0_once_it_is_written(
    program: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setenv("RANK", "0")
    monkeypatch.setenv("WORLD_SIZE", "2")
    arguments = ["audit", f"{program}:dirty", *FEW, "-q"]
    assert cli.run([*arguments, "--output", f"json={tmp_path}/{{shard}}.json"]) == 0
    path = tmp_path / "1-of-2.json"
    assert capsys.readouterr().err == (
        f"lastbit: shard 1/2 is written to {path}; `lastbit merge` gives the exit code.\n"
    )
    assert cli.run(["merge", str(path), "-q"]) == 1
    # What was asked for by hand ends as it did.
    assert cli.run([*arguments, "--shard", "1/2", "--output", f"json={path}"]) == 1


def test_shards_that_a_launcher_started_must_be_written(
    program: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("RANK", "0")
    monkeypatch.setenv("WORLD_SIZE", "2")
    assert cli.run(["audit", f"{program}:clean", *FEW]) == 2
    assert capsys.readouterr().err == (
        "2 processes audit a part each and keep none. Give --output 'json=part-{shard}.json', and "
        "join the files with `lastbit merge`.\n"
    )
    assert cli.run(["audit", f"{program}:clean", *FEW, "--format", "json"]) == 0
    assert "shard 1/2 is written to stdout" in capsys.readouterr().err


def test_a_target_that_never_ends_is_stopped(
    program: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(ending, "LEAST", 0.1)
    assert cli.run(["audit", f"{program}:endless", *FEW, "--time-limit", "0.01"]) == 2
    assert capsys.readouterr().err == (
        f"{program}:endless had not ended after 0.11 s and was stopped. Give more with "
        "--time-limit, or 0 for no limit.\n"
    )


def test_time_that_a_watcher_takes_is_not_that_of_the_target() -> None:
    patience = ending.Patience(0.05)
    patience.enter()
    time.sleep(0.1)
    patience.leave()
    patience.enter()
    patience.leave()
    time.sleep(0.1)
    late = ending.ended("f", 0.05, " on 2 rows", watched=True)
    with pytest.raises(InputError) as error, late:
        patience.enter()
    assert str(error.value) == (
        "f had not ended on 2 rows after 0.05 s and was stopped. Give more with --time-limit, or 0 "
        "for no limit."
    )


def test_a_batch_size_that_fails_does_not_cost_the_others(
    program: str, capsys: pytest.CaptureFixture[str]
) -> None:
    sizes = ["--batch", "1,2,3,5", "--repeats", "3", "--threads", "1"]
    assert cli.run(["audit", f"{program}:picky", *sizes]) == 1
    out = capsys.readouterr().out
    assert "1 result of row 0 in batches of 1, 3, 5\n    gap       not run with 2 rows: " in out
    assert out.endswith(
        "decided 1 of 1 operator; no culprits; as a whole not run in batches of 2; batches of 1, "
        "2, 3, 5, 3 equal runs\n"
    )


def test_inputs_that_need_a_number_of_rows_are_given_one(
    program: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.run(["audit", f"{program}:made", *FEW, "-q"]) == 0
    assert capsys.readouterr().out.startswith("decided 2 of 2 operators; no culprits")


def test_what_a_target_sets_for_the_whole_process_is_put_back(
    program: str, capsys: pytest.CaptureFixture[str]
) -> None:
    before = torch.get_default_dtype(), torch.get_num_threads()
    assert cli.run(["audit", f"{program}:setting", *FEW]) == 0
    assert (torch.get_default_dtype(), torch.get_num_threads()) == before
    out = capsys.readouterr().out
    for name in ("the number of threads", "the default dtype"):
        put_back = "for the whole process; it was put back after every run"
        assert f"gap: the target sets {name} {put_back}\n" in out


def test_an_interrupt_says_how_far_it_came(
    program: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def interrupted(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("lastbit.audit.trials._alone", interrupted)
    assert cli.run(["audit", f"{program}:clean", *FEW]) == 130
    assert capsys.readouterr().err == (
        "lastbit: 0 of 2 operators were audited; --journal FILE keeps them.\nlastbit: interrupted\n"
    )


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--batch", "1,,2"], "'1,,2' gives no batch sizes; write 1,2,8 or sweep."),
        (["--batch", "0"], "'0' gives no batch sizes; write 1,2,8 or sweep."),
        (["--threads", "two"], "'two' gives no numbers of threads; write 1,2,8."),
        (["--select", "RED201"], "'RED201' is no code of an audit; codes: DET650, DET651,"),
        (["--output", "sarif=x"], "'sarif=x' is no FORMAT=PATH; formats: text, json."),
    ],
)
def test_wrong_options_are_refused(
    arguments: list[str], message: str, program: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.run(["audit", f"{program}:clean", *arguments]) == 2
    error = " ".join(capsys.readouterr().err.split())
    assert message in error


def test_threads_begin_with_those_that_the_program_has(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OMP_NUM_THREADS", "5")
    assert command.default_threads() == (5, 1, 2)
