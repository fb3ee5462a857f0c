"""End a run of the target that does not end by itself.

The clock of an audit is asked between trials, which a target that loops for ever never reaches. A
signal of the operating system comes in whatever Python code runs; where there is none (another
thread than the first, or Windows) a run ends at the next operator that a watcher sees.
"""

from __future__ import annotations

import contextlib
import signal
import threading
import time
from collections.abc import Iterator
from typing import Any, Final

from lastbit.errors import InputError, Problem

TIMES: Final = 3  # the time limit, for one run
LEAST: Final = 30.0  # seconds beyond the time limit: what is slow, but ends, is not ended
REMEDY: Final = "Give more with --time-limit, or 0 for no limit."


class LateError(BaseException):
    """A run of the target goes on too long; no `except Exception` of the target's holds it up."""


def longest(seconds: float | None) -> float | None:
    """Return the seconds that one run of the target may take, from the time limit."""
    return None if seconds is None else max(TIMES * seconds, seconds + LEAST)


@contextlib.contextmanager
def ended(
    label: str, seconds: float | None, what: str = "", *, watched: bool = False
) -> Iterator[None]:
    """End what runs inside once it takes too long.

    Args:
        label: of the target.
        seconds: that it may take; None: as long as it takes.
        what: sets this run apart (` on 32 rows`), or empty.
        watched: whether a watcher counts its time, and raises `LateError`.

    Raises:
        InputError: it was ended.
    """
    try:
        with contextlib.ExitStack() as stack:
            if seconds is not None and not watched and _has_signal():
                stack.enter_context(_alarm(seconds))
            yield
    except LateError:
        message = f"{label} had not ended{what} after {seconds:.3g} s and was stopped"
        raise InputError([Problem(message, REMEDY)]) from None


def _has_signal() -> bool:
    """Return whether an alarm can be set that nobody else has set."""
    if not hasattr(signal, "setitimer"):
        return False
    first = threading.current_thread() is threading.main_thread()
    return first and signal.getitimer(signal.ITIMER_REAL)[0] == 0


@contextlib.contextmanager
def _alarm(seconds: float) -> Iterator[None]:
    def late(_: int, __: Any) -> None:
        raise LateError

    before = signal.signal(signal.SIGALRM, late)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


class Patience:
    """Ends a run that is watched: counts the time of the target, and not that of its audit.

    Args:
        seconds: that the target may take; None: as long as it takes.
    """

    def __init__(self, seconds: float | None) -> None:
        self.left, self.since = seconds, time.monotonic()

    def enter(self) -> None:
        """Count what the target took until it called an operator.

        Raises:
            LateError: it took too long.
        """
        if self.left is not None:
            self.left -= time.monotonic() - self.since
            if self.left < 0:
                raise LateError

    def leave(self) -> None:
        """Begin to count."""
        self.since = time.monotonic()
