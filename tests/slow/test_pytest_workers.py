"""One report comes from several workers, and a worker that dies takes no finished test with it."""

import pytest
from sessions import entries_of, run_session, written

pytest.importorskip("xdist")


def test_several_workers_write_the_report_of_one(tmp_path):
    _, report = written(tmp_path)
    chosen = ("-k", "not drawn", "--lastbit-report", str(report), "-q")
    run_session(tmp_path, *chosen)
    alone = report.read_bytes()
    report.unlink()
    done = run_session(tmp_path, "-p", "xdist", "-n", "2", *chosen)
    assert "8 assertions (6 passed, 1 failed, 1 refused)" in done.stdout, done.stdout + done.stderr
    assert report.read_bytes() == alone
    assert sorted(path.name for path in tmp_path.glob("*.json*")) == ["report.json"]


def test_a_worker_that_dies_takes_no_finished_test_with_it(tmp_path):
    path, report = written(tmp_path)
    path.write_text(path.read_text() + "\n\ndef test_dies():\n    __import__('os')._exit(3)\n")
    done = run_session(
        tmp_path, "-p", "xdist", "-n", "1", "--lastbit-report", str(report), "-q", "-x",
        "-k", "equal or dies",
    )  # fmt: skip
    assert done.returncode != 0
    assert [entry["outcome"] for entry in entries_of(report)] == ["passed"] * 3
