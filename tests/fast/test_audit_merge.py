"""The shards of an audit join to the audit that one process makes; what is lost is said."""

from __future__ import annotations

import importlib
import json
import sys
from dataclasses import replace
from pathlib import Path

import pytest

pytest.importorskip("torch._dynamo")  # by which a dispatch mode is entered

from audited import SMALL, audited, numbers, split_sum

from lastbit import cli
from lastbit.audit.auditing import Hooks
from lastbit.audit.journal import Journal
from lastbit.audit.merging import merge
from lastbit.audit.records import Audit, CaseRecord, to_json
from lastbit.audit.sharding import Shard
from lastbit.audit.sources import source_of
from lastbit.errors import InputError


def program(x):
    return split_sum(x.relu() * 2).sqrt()


X = numbers(8, 16).abs()


def shard_of(index: int, count: int) -> Audit:
    shard = Shard(index, count)
    options = replace(SMALL, shard=str(shard))
    return audited(program, X, options=options, hooks=Hooks(mine=shard.takes))


@pytest.fixture(scope="module")
def whole() -> Audit:
    return audited(program, X)


@pytest.fixture(scope="module")
def shards() -> dict[str, Audit]:
    return {f"{n}.json": shard_of(n, 3) for n in (1, 2, 3)}


def test_all_shards_together_are_the_audit_of_one_process(whole, shards):
    assert whole.known == 4
    assert [len(one.cases) for one in shards.values()] == [2, 1, 1]
    assert [case.operator for case in whole.culprits] == ["audited.split_sum.default"]
    assert to_json(merge(shards)) == to_json(whole)
    backwards = dict(reversed(shards.items()))
    assert to_json(merge(backwards)) == to_json(whole)


def test_a_lost_shard_loses_its_cases_alone(whole, shards):
    kept = {name: one for name, one in shards.items() if name != "3.json"}
    merged = merge(kept)
    assert merged.decided == (3, 4)
    assert merged.exit_code == 1
    assert "1 of 4 operators were audited by no shard; missing: 3/3" in merged.gaps
    numbers_ = [case.number for case in merged.cases]
    assert numbers_ == [0, 1, 3]
    assert merged.cases == tuple(case for case in whole.cases if case.number in numbers_)


def test_a_shard_that_is_given_twice_counts_once(whole, shards):
    assert to_json(merge({**shards, "again.json": shards["1.json"]})) == to_json(whole)


def test_what_differs_between_machines_is_kept(shards):
    other = replace(shards["2.json"], environment={**shards["2.json"].environment, "cpu": "OLD"})
    merged = merge({**shards, "2.json": other})
    assert merged.environment["cpu"] == f"{shards['1.json'].environment['cpu']} | OLD"


def test_shards_of_different_audits_do_not_merge(shards):
    other = replace(shards["2.json"], repeats=7)
    with pytest.raises(InputError) as error:
        merge({"1.json": shards["1.json"], "2.json": other})
    assert str(error.value) == (
        "2.json: is of another audit than 1.json: repeats is 7 here, 3 there. Merge the shards of "
        "one audit; each is made with --shard i/n --output json=FILE."
    )


def test_shards_of_a_source_that_was_edited_do_not_merge(shards):
    one, two = (
        replace(shards[name], environment={**shards[name].environment, "source": f"sha256:{name}"})
        for name in ("1.json", "2.json")
    )
    with pytest.raises(InputError) as error:
        merge({"1.json": one, "2.json": two})
    assert str(error.value) == (
        "2.json: is of another source than 1.json: target was edited between the two. Audit all "
        "shards again."
    )


def test_sizes_that_a_whole_run_lacks_are_not_decided(whole):
    (one,) = whole.whole
    batch = next(trial for trial in one.trials if trial.kind == "batch")
    assert whole.not_run == ()
    fewer = replace(batch, values=batch.values[1:], results=batch.results[1:])
    lacking = replace(whole, findings=(), whole=(replace(one, trials=(fewer,)),))
    assert lacking.not_run == batch.values[:1]
    assert lacking.exit_code == 1
    assert replace(whole, findings=()).exit_code == 0
    assert replace(whole, findings=(), known=0, cases=(), decided=(0, 0)).exit_code == 1


def test_the_source_is_that_of_the_file_and_of_what_it_imports_from_beside_it(
    tmp_path: Path, monkeypatch
):
    file, beside = tmp_path / "model.py", tmp_path / "beside_the_model.py"
    file.write_text("import beside_the_model")
    beside.write_text("K = 1")
    first = source_of(f"{file}:build")
    assert first == source_of(f"{file}:other")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setitem(sys.modules, "beside_the_model", importlib.import_module(beside.stem))
    second = source_of(f"{file}:build")
    beside.write_text("K = 2")
    third = source_of(f"{file}:build")
    file.write_text("import beside_the_model  # edited")
    assert len({first, second, third, source_of(f"{file}:build")}) == 4
    assert source_of("target") is None


def test_two_runs_of_one_shard_that_disagree_do_not_merge(shards):
    one = shards["1.json"]
    other = replace(one, cases=(replace(one.cases[0], size=9), *one.cases[1:]))
    with pytest.raises(InputError) as error:
        merge({"1.json": one, "2.json": other})
    assert str(error.value) == (
        f"2.json: says something else of {one.cases[0].operator}, case 0, than 1.json. Two runs of "
        "one shard differ: merge one of them, or audit again."
    )


def test_nothing_does_not_merge():
    with pytest.raises(InputError, match="no result to merge"):
        merge({})


def test_the_command_reads_and_writes_json(tmp_path: Path, whole, shards, capsys):
    for name, one in shards.items():
        (tmp_path / name).write_text(json.dumps(to_json(one)))
    paths = [str(tmp_path / name) for name in shards]
    out = tmp_path / "all.json"
    assert cli.run(["merge", *paths, "--output", f"json={out}"]) == 1
    assert json.loads(out.read_text()) == json.loads(json.dumps(to_json(whole)))
    assert capsys.readouterr().out.endswith("3 equal runs\n")


def test_files_that_are_no_audits_are_all_named(tmp_path: Path, capsys):
    bad, none = tmp_path / "bad.json", tmp_path / "none.json"
    bad.write_text("{")
    other = tmp_path / "other.json"
    other.write_text('{"schema": "lastbit.result/1"}')
    assert cli.run(["merge", str(bad), str(none), str(other)]) == 2
    error = capsys.readouterr().err
    assert f"{bad}: is no JSON." in error
    assert f"{none}: cannot be read: No such file or directory." in error
    assert f"{other}: `schema` must be 'lastbit.audit/1', not 'lastbit.result/1'." in error


def test_an_audit_that_was_interrupted_goes_on_where_it_stopped(tmp_path: Path, whole):
    path = str(tmp_path / "audit.jsonl")
    tried: list[str] = []

    class StoppedError(Exception):
        pass

    def run(most: int) -> Audit:
        with Journal(path, {"audit": "of this test"}, CaseRecord) as journal:

            def finished(record: CaseRecord) -> None:
                journal.add(record.key, record)
                tried.append(record.operator)
                if len(tried) == most:
                    raise StoppedError

            return audited(program, X, hooks=Hooks(finished=finished, done=dict(journal.done)))

    with pytest.raises(StoppedError):
        run(most=2)
    found = run(most=99)
    assert tried == [case.operator for case in whole.cases]
    assert to_json(found) == to_json(whole)


def test_processes_of_one_launcher_do_not_write_to_one_file(tmp_path: Path, monkeypatch, capsys):
    monkeypatch.setenv("RANK", "1")
    monkeypatch.setenv("WORLD_SIZE", "2")
    path = tmp_path / "audit.json"
    assert cli.run(["audit", "model.py:f", "--output", f"json={path}"]) == 2
    assert capsys.readouterr().err == (
        f"2 processes would write to one file, {path}. Put {{shard}} into its name, as in "
        "part-{shard}.json.\n"
    )
