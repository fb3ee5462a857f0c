"""An interrupt that a terminal sends to all processes is answered by one of them, in one line."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading

import pytest

from lastbit.forking import can_fork, forked_pool

pytestmark = pytest.mark.skipif(not can_fork(), reason="processes cannot be copied here")

# Two processes are told to wait; the whole group is interrupted while they do.
PROGRAM = """
import os, signal, sys, time
from lastbit.forking import forked_pool

def wait(_):
    os.write(1, b"at work\\n")
    time.sleep(60)

try:
    with forked_pool(2) as pool:
        for _ in pool.imap(wait, range(2)):
            pass
except KeyboardInterrupt:
    print("interrupted", flush=True)
"""


def _blocked(_: object) -> bool:
    return signal.SIGINT in signal.pthread_sigmask(signal.SIG_BLOCK, ())


def test_an_interrupt_of_the_group_prints_nothing_from_its_workers() -> None:
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    with subprocess.Popen(
        [sys.executable, "-c", PROGRAM],
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    ) as process:
        assert process.stdout is not None
        assert [process.stdout.readline() for _ in range(2)] == ["at work\n"] * 2
        os.killpg(process.pid, signal.SIGINT)
        out, err = process.communicate(timeout=30)
    assert (process.returncode, out, err) == (0, "interrupted\n", "")


def test_workers_are_born_with_the_interrupt_blocked_and_this_process_keeps_its_own() -> None:
    before = signal.pthread_sigmask(signal.SIG_BLOCK, ())
    with forked_pool(1) as pool:
        assert pool.map(_blocked, range(1)) == [True]
        assert signal.pthread_sigmask(signal.SIG_BLOCK, ()) == before


def test_a_pool_may_begin_in_any_thread() -> None:
    found: list[list[bool]] = []

    def begin() -> None:
        with forked_pool(1) as pool:
            found.append(pool.map(_blocked, range(1)))

    thread = threading.Thread(target=begin)
    thread.start()
    thread.join(30)
    assert found == [[True]]
