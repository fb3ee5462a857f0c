"""Every case belongs to one shard, and a finished case outlives the process that finished it."""

import os
import subprocess
import sys
from dataclasses import dataclass

import pytest

from lastbit.audit.journal import Journal
from lastbit.audit.sharding import Shard, parse_shard, shard_of_environment
from lastbit.errors import InputError


@dataclass(frozen=True)
class Finished:
    """A case as the journal sees it: any dataclass."""

    name: str
    sizes: tuple[int, ...]


ASKED = {"target": "model.py:build", "batch": [1, 2]}
MM = Finished("aten.mm.default", (1, 2))


def test_every_case_belongs_to_one_shard():
    shards = [Shard(index, 3) for index in (1, 2, 3)]
    assert [[shard.takes(n) for shard in shards].index(True) for n in range(6)] == [0, 1, 2] * 2
    assert all(sum(shard.takes(n) for shard in shards) == 1 for n in range(100))


def test_a_shard_reads_as_it_prints():
    assert str(parse_shard(" 2/8 ")) == "2/8"
    assert parse_shard("1/1") == Shard()


@pytest.mark.parametrize(
    "text", ["", "0/2", "3/2", "1/0", "1", "a/b", "1/2/3", "-1/2", "1/99999999"]
)
def test_what_names_no_shard_is_refused(text: str):
    with pytest.raises(InputError) as error:
        parse_shard(text)
    assert str(error.value) == f"{text!r} names no shard. Write i/n with i from 1 to n, as 2/8."


def test_a_launcher_names_the_shard():
    assert shard_of_environment({}) == Shard()
    assert shard_of_environment({"RANK": "0", "WORLD_SIZE": "2"}) == Shard(1, 2)
    assert shard_of_environment({"RANK": "1", "WORLD_SIZE": "2"}) == Shard(2, 2)


@pytest.mark.parametrize(
    ("rank", "world"), [("2", "2"), ("-1", "2"), ("one", "2"), ("0", None), (None, "2"), ("0", "")]
)
def test_a_launcher_that_names_no_shard_is_told(rank: str | None, world: str | None):
    given = {"RANK": rank, "WORLD_SIZE": world}
    with pytest.raises(InputError) as error:
        shard_of_environment({name: value for name, value in given.items() if value is not None})
    assert str(error.value) == (
        f"RANK is {rank!r} and WORLD_SIZE is {world!r}; together they name no shard. "
        "Set both, 0 <= RANK < WORLD_SIZE, or give --shard."
    )


def test_a_journal_gives_back_what_was_finished(tmp_path):
    path = str(tmp_path / "audit.jsonl")
    with Journal(path, ASKED, Finished) as journal:
        journal.add("mm", MM)
    with Journal(path, ASKED, Finished) as again:
        assert again.done == {"mm": MM}
        again.add("sum", Finished("aten.sum.default", ()))
    with Journal(path, ASKED, Finished) as third:
        assert list(third.done) == ["mm", "sum"]


def test_a_line_that_was_cut_off_is_dropped_and_the_rest_kept(tmp_path):
    path = tmp_path / "audit.jsonl"
    with Journal(str(path), ASKED, Finished) as journal:
        journal.add("mm", MM)
        whole = path.read_bytes()
        journal.add("sum", Finished("aten.sum.default", (4,)))
    for length in range(len(whole), path.stat().st_size):
        cut = tmp_path / f"{length}.jsonl"
        cut.write_bytes(path.read_bytes()[:length])
        with Journal(str(cut), ASKED, Finished) as journal:
            assert journal.done == {"mm": MM}
        assert cut.read_bytes() == whole


def test_a_finished_case_outlives_a_process_that_is_killed(tmp_path):
    path = tmp_path / "audit.jsonl"
    program = (
        "import os, signal, sys; from lastbit.audit.journal import Journal\n"
        "journal = Journal(sys.argv[1], {'batch': 1}, dict)\n"
        "journal.add('mm', {}); os.kill(os.getpid(), signal.SIGKILL)"
    )
    ended = subprocess.run([sys.executable, "-c", program, str(path)], check=False, env=os.environ)
    assert ended.returncode == -9
    assert path.read_text() == '{"batch": 1}\n{"key": "mm", "case": {}}\n'


def test_a_journal_of_another_audit_is_left_as_it_was(tmp_path):
    path = tmp_path / "audit.jsonl"
    Journal(str(path), ASKED, Finished).close()
    before = path.read_bytes()
    with pytest.raises(InputError) as error:
        Journal(str(path), {**ASKED, "batch": [1, 2, 4]}, Finished)
    assert str(error.value) == (
        f"{path}:1: the journal is that of another audit: batch was [1, 2] there and is [1, 2, 4] "
        "now. Give the audit of before again, another file, or remove this one."
    )
    assert path.read_bytes() == before


@pytest.mark.parametrize(
    ("content", "line", "why"),
    [
        (b"hello\n", 1, "a line is no JSON"),
        (b"[]\n", 1, "a line is no JSON object"),
        (b'{"name": 1}\n', 1, "its first line says of no audit what was asked"),
        (b"my notes", 1, "its first line is not whole"),
        (b"{}\n{}\n", 1, "its first line says of no audit what was asked"),
        (b"\xff\n", 1, "a line is no JSON"),
        (b"[" * 100_000 + b"\n", 1, "a line is no JSON"),
    ],
)
def test_a_file_that_is_no_journal_is_left_as_it_was(tmp_path, content: bytes, line: int, why: str):
    path = tmp_path / "notes.txt"
    path.write_bytes(content)
    with pytest.raises(InputError) as error:
        Journal(str(path), ASKED, Finished)
    assert str(error.value) == (
        f"{path}:{line}: the file is no journal of an audit: {why}. "
        "Give the audit of before again, another file, or remove this one."
    )
    assert path.read_bytes() == content


def test_a_journal_that_was_cut_off_in_its_first_line_begins_anew(tmp_path):
    path = tmp_path / "audit.jsonl"
    path.write_bytes(b'{"target": "mod')
    with Journal(str(path), ASKED, Finished) as journal:
        journal.add("mm", MM)
    with Journal(str(path), ASKED, Finished) as again:
        assert again.done == {"mm": MM}


def test_a_case_that_does_not_fit_is_named_with_its_line(tmp_path):
    path = tmp_path / "audit.jsonl"
    with Journal(str(path), ASKED, Finished) as journal:
        journal.add("mm", MM)
    path.write_text(path.read_text().replace('"name"', '"nome"'))
    with pytest.raises(InputError) as error:
        Journal(str(path), ASKED, Finished)
    assert str(error.value).startswith(f"{path}:2: the file is no journal of an audit: `case")


def test_a_journal_in_no_folder_is_refused(tmp_path):
    with pytest.raises(InputError) as error:
        Journal(str(tmp_path / "no/audit.jsonl"), ASKED, Finished)
    assert str(error.value) == (
        f"{tmp_path / 'no/audit.jsonl'}: the journal cannot be opened: No such file or directory."
    )
