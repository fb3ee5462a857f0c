"""Typed access to the tables of a plan.

A value that does not fit is reported with its place and read as if it were not there, so that one
pass finds everything.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from fractions import Fraction
from reprlib import Repr
from typing import TypeGuard

from lastbit.errors import Place, did_you_mean
from lastbit.plan_source import Source
from lastbit.toml_places import Path

MAX_TEXT = 1000  # characters of a name or another short text
MAX_VALUE = 2**1000


class Section:
    """One table of a plan.

    Attributes:
        source: the file.
        path: of the table.
        what: what it is called in messages, such as `[graph]`.
        values: by key; what is null in JSON is not given.
        keys: all keys.
        misspelt: fields for which `only` found a misspelt one.
    """

    def __init__(self, source: Source, path: Path, what: str, values: Mapping[str, object]) -> None:
        self.source, self.path, self.what = source, path, what
        self.values = {key: value for key, value in values.items() if value is not None}
        self.keys = tuple(values)
        self.misspelt: set[str] = set()

    def __contains__(self, name: str) -> bool:
        return name in self.values

    def place(self, name: str | None = None) -> Place:
        """Return the place of a value, or of the table."""
        return self.source.place(self.path if name is None else (*self.path, name), name is None)

    def report(self, name: str | None, message: str, remedy: str = "", key: bool = False) -> None:
        """Note a problem with a value, with its key, or with the table."""
        path = self.path if name is None else (*self.path, name)
        self.source.report(path, message, remedy, key or name is None)

    def refuse(self, name: str, allowed: str) -> None:
        """Note that a value is not what is allowed."""
        self.report(name, f"`{name}` is {shown(self.values[name])}", f"Allowed: {allowed}.")

    def only(self, *fields: str) -> None:
        """Report the fields that do not exist."""
        for name in self.keys:
            if name not in fields:
                remedy = did_you_mean(name[:MAX_TEXT], fields)
                message = f"unknown field {shown(name)} of {self.what}"
                self.report(name, message, remedy, key=True)
                self.misspelt.update(f for f in fields if remedy == f"Did you mean {f!r}?")

    def missing(self, name: str, remedy: str) -> bool:
        """Return whether a field is not given, and report it unless it is only misspelt."""
        if name not in self.values and name not in self.misspelt:
            self.report(None, f"{self.what} has no `{name}`", remedy)
        return name not in self.values

    def text(self, name: str, lines: bool = False) -> str | None:
        """Return a text of one line, or of several."""
        if name not in self.values:
            return None
        value = self.values[name]
        if not isinstance(value, str):
            self.refuse(name, "a text")
        elif not value.strip():
            self.report(name, f"`{name}` is empty", "Allowed: a text.")
        elif self._printable(name, value, lines):
            return value
        return None

    def texts(self, name: str) -> dict[str, Path]:
        """Return one text or a list of them, each with its path."""
        value = self.values.get(name, [])
        if isinstance(value, str):
            text = self.text(name)
            return {} if text is None else {text: (*self.path, name)}
        if not isinstance(value, list):
            self.refuse(name, "a text or a list of texts")
            return {}
        found: dict[str, Path] = {}
        for i, item in enumerate(value):
            path = (*self.path, name, i)
            if not isinstance(item, str) or not item.strip():
                message = f"`{name}` holds {shown(item)}"
                self.source.report(path, message, "Allowed: a list of texts.")
            elif item in found:
                self.source.report(path, f"`{name}` holds {shown(item)} twice", "Give it once.")
            elif self._printable(name, item, False):
                found[item] = path
        return found

    def _printable(self, name: str, value: str, lines: bool) -> bool:
        strange = next((c for c in value if not (c.isprintable() or (lines and c in "\n\t"))), None)
        if len(value) > MAX_TEXT:
            message = f"`{name}` has {len(value)} characters"
            self.report(name, message, f"At most {MAX_TEXT} are read.")
        elif strange is not None:
            message = f"`{name}` holds the character U+{ord(strange):04X}"
            self.report(name, message, "Only printable ones may stand.")
        return len(value) <= MAX_TEXT and strange is None

    def choice(self, name: str, allowed: Iterable[str], what: str) -> str | None:
        """Return a text that must be one of several."""
        names = tuple(allowed)
        value = self.text(name)
        if value is None or value in names:
            return value
        self.report(name, f"unknown {what} {shown(value)}", did_you_mean(value, names))
        return None

    def flag(self, name: str) -> bool:
        """Return true or false; false where it is not given."""
        value = self.values.get(name, False)
        if not isinstance(value, bool):
            self.refuse(name, "true or false")
        return value is True

    def numbers(self, name: str) -> tuple[Fraction, Fraction] | None:
        """Return a closed range `[low, high]`."""
        match self.values.get(name):
            case [low, high] if is_number(low) and is_number(high):
                bounds = Fraction(low), Fraction(high)
                if bounds[0] <= bounds[1]:
                    return bounds
        if name in self.values:
            self.refuse(name, "[low, high], two numbers in order")
        return None

    def section(self, name: str, what: str | None = None) -> Section | None:
        """Return a table inside this one."""
        if name not in self.values:
            return None
        value = self.values[name]
        if isinstance(value, dict):
            return Section(self.source, (*self.path, name), what or f"[{name}]", value)
        self.refuse(name, f"a table, {what or f'[{name}]'}")
        return None

    def sections(self, name: str) -> Iterator[Section]:
        """Yield the tables of an array of tables."""
        value = self.values.get(name, [])
        if not isinstance(value, list):
            self.refuse(name, f"tables, each under [[{name}]]")
            return
        for i, item in enumerate(value):
            path = (*self.path, name, i)
            if isinstance(item, dict):
                yield Section(self.source, path, f"[[{name}]]", item)
            else:
                message = f"`{name}` holds {shown(item)}"
                self.source.report(path, message, f"Allowed: tables, each under [[{name}]].")


def is_number(value: object) -> TypeGuard[int | Fraction]:
    """Return whether a value of a plan is a finite number."""
    if isinstance(value, bool) or not isinstance(value, int | Fraction):
        return False
    return -MAX_VALUE < value < MAX_VALUE


def shown(value: object) -> str:
    """Return a value for a message, shortened."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, Fraction):
        return repr(float(value))
    if isinstance(value, str | int | float | list | dict):
        return _REPR.repr(value)
    return "null" if value is None else str(value)


class _Short(Repr):
    def __init__(self) -> None:
        super().__init__()
        self.maxstring = self.maxlong = 80
        self.maxlevel = 2

    def repr_Fraction(self, value: Fraction, _: int) -> str:  # noqa: N802
        return repr(float(value))


_REPR = _Short()
