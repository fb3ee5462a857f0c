"""Errors: classes with fields, whose text is built from the fields."""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from dataclasses import dataclass

WIDTH = 200  # characters of an offending line that are shown
LISTED = 40  # allowed names that are listed
MANY = 1000  # names that are compared with a misspelt one


@dataclass(frozen=True, slots=True)
class Place:
    """A place in a file that the user gave us; lines and columns count from 1."""

    file: str = ""
    line: int = 0
    column: int = 0
    source: str = ""

    def __str__(self) -> str:
        parts = [self.file] if self.file else []
        parts += [str(n) for n in (self.line, self.column) if n]
        return ":".join(parts)

    def shown(self) -> str:
        """Return the line for a message: the part around the column, unprintable ones escaped."""
        start = max(0, self.column - WIDTH // 2) if len(self.source) > WIDTH else 0
        part = self.source[start : start + WIDTH]
        text = "".join(c if c.isprintable() or c == "\t" else ascii(c)[1:-1] for c in part).strip()
        before = "..." if self.source[:start].strip() else ""
        return f"{before}{text}{'...' if self.source[start + WIDTH :].strip() else ''}"


@dataclass(frozen=True, slots=True)
class Problem:
    """One thing wrong with what the user gave us: what, where, and what to do."""

    message: str
    remedy: str = ""
    place: Place = Place()

    def __str__(self) -> str:
        where = f"{self.place}: " if str(self.place) else ""
        end = "" if self.message.endswith((".", "?")) else "."
        text = f"{where}{self.message}{end}"
        if self.remedy:
            text += f" {self.remedy}"
        if self.place.source:
            text += f"\n    {self.place.shown()}"
        return text


class LastbitError(Exception):
    """What lastbit raises on purpose; the command line prints its text and exits with 2."""


class InputError(LastbitError):
    """Input that cannot be used, with everything that is wrong with it.

    Attributes:
        problems: every problem found, in the order of the file.
    """

    def __init__(self, problems: Iterable[Problem]) -> None:
        self.problems = tuple(problems)
        super().__init__("\n".join(str(problem) for problem in self.problems))


def did_you_mean(name: str, allowed: Iterable[str]) -> str:
    """Return a remedy for a misspelt name: the nearest allowed name, or the allowed names."""
    names = sorted(allowed)
    likely = names if len(names) <= MANY else [n for n in names if n[:1] == name[:1]][:MANY]
    near = difflib.get_close_matches(name, likely, n=1, cutoff=0.6)
    if near:
        return f"Did you mean {near[0]!r}?"
    more = f" and {len(names) - LISTED} more" if len(names) > LISTED else ""
    return f"Allowed: {', '.join(names[:LISTED])}{more}."
