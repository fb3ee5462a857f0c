"""Processes that inherit what this one knows, and leave interrupts to it."""

from __future__ import annotations

import multiprocessing
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from multiprocessing.pool import Pool


def can_fork() -> bool:
    """Return whether this process may have children that inherit its memory."""
    return (
        "fork" in multiprocessing.get_all_start_methods() and not multiprocessing.parent_process()
    )


@contextmanager
def forked_pool(workers: int) -> Iterator[Pool]:
    """Give processes that begin as copies of this one; they end with the block.

    A terminal sends an interrupt to each process of a group. Only the one that the user started
    answers it, and ends the others: they are born with the signal blocked, so that there is no
    moment at which one of them would print where it stood.
    """
    mask = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        pool = multiprocessing.get_context("fork").Pool(workers)
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)
    with pool:
        yield pool
