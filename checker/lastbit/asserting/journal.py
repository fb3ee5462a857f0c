"""What the assertions of a session found, for `--lastbit-report`.

Assertions note what they found here, whether a report is wanted or not; without one it is dropped.
"""

from __future__ import annotations

from typing import Any, Final, TypeAlias

SCHEMA: Final = "lastbit.pytest/1"
OUTCOMES: Final = ("passed", "failed", "refused")

Entry: TypeAlias = dict[str, Any]


class Journal:
    """Entries in the order in which they were noted.

    Attributes:
        test: id of the test that runs; null between tests.
    """

    def __init__(self) -> None:
        self.test: str | None = None
        self._entries: list[Entry] = []

    def note(self, entry: Entry) -> None:
        """Add an entry of plain JSON values, under the test that runs."""
        self._entries.append({"test": self.test, **entry})

    def take(self) -> list[Entry]:
        """Return what was noted since the last call, and forget it."""
        taken, self._entries = self._entries, []
        return taken


_listening: list[Journal] = []


def listen(journal: Journal) -> None:
    """Let a journal hear of every assertion, in place of the one before it."""
    _listening.append(journal)


def unlisten(journal: Journal) -> None:
    """Let it hear no more."""
    _listening.remove(journal)


def note(entry: Entry) -> None:
    """Tell the newest journal of an assertion, if there is one."""
    if _listening:
        _listening[-1].note(entry)


def summary_of(entries: list[Entry]) -> dict[str, int]:
    """Return how many assertions had each outcome, and how many there were."""
    counts = dict.fromkeys(OUTCOMES, 0)
    for entry in entries:
        counts[entry["outcome"]] += 1
    return {"assertions": len(entries), **counts}
