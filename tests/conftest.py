"""What all tests share: one thread for matrix libraries, as in the command; fixtures."""

import gc
import os
import signal
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

for name in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(name, "1")

# Workers of pytest-xdist share the cores out, so that what uses all of them takes its own.
if (worker := os.environ.get("PYTEST_XDIST_WORKER", "")) and hasattr(os, "sched_setaffinity"):
    cores = sorted(os.sched_getaffinity(0))
    first = int(worker.removeprefix("gw")) % len(cores)
    os.sched_setaffinity(0, cores[first :: int(os.environ["PYTEST_XDIST_WORKER_COUNT"])])

# A job in the background of a shell ignores interrupts, and so would what tests start.
signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_collection_finish() -> None:
    """Leave what was imported and collected out of the garbage collections to come."""
    gc.collect()
    gc.freeze()


@pytest.fixture
def idea(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., int]:
    """Write a file of two functions, and return what runs `lastbit check` beside it."""
    from compared import IDEA

    from lastbit import cli

    (tmp_path / "idea.py").write_text(IDEA, encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("NO_COLOR", "1")
    monkeypatch.setattr(sys, "path", [*sys.path])

    def run(*arguments: str) -> int:
        return cli.run(["check", *arguments])

    return run


@pytest.fixture(scope="session")
def only_numpy(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder from which numpy can be imported, and nothing else."""
    import numpy as np

    folder = tmp_path_factory.mktemp("numpy")
    home = Path(np.__file__).parents[1]
    for name in ("numpy", "numpy.libs"):
        if (home / name).exists():
            (folder / name).symlink_to(home / name, target_is_directory=True)
    return folder


@pytest.fixture
def run_scripts(only_numpy: Path, tmp_path: Path) -> Callable[..., dict[str, list[object]]]:
    """Return a function that runs scripts, by name, where only numpy is installed."""
    from scripts import run_where

    return partial(run_where, tmp_path, only_numpy)
