"""Read the file of a plan: its text, what it says, where everything stands and what is wrong."""

from __future__ import annotations

import json
import re
import stat
import tomllib
from dataclasses import dataclass, field
from fractions import Fraction
from pathlib import Path
from typing import NoReturn

from lastbit import toml_places
from lastbit.errors import InputError, Place, Problem
from lastbit.text import MAX_PROBLEMS
from lastbit.toml_places import Places, TooDeepError

MAX_BYTES = 8 * 2**20

_AT = re.compile(r"(.*) \(at (?:line (\d+), column (\d+)|end of document)\)")
_NONZERO = re.compile(r"[-+]?[0._]*[1-9]")
_ODD = {
    "date": ("bad date {}", "There is no such day or time; write one as 2027-06-30."),
    "number": ("the number {} is too long", f"At most {toml_places.MAX_NUMBER} characters."),
    "twice": ("`{}` is given twice", "Line {} gives it already."),
}
_REMEDIES = {
    "Cannot declare": "Write each table once.",
    "Cannot overwrite": "Give each key once.",
}


@dataclass
class Source:
    """The file of a plan.

    Attributes:
        file: as the user wrote it.
        is_json: whether it is JSON and not TOML.
        places: where everything stands.
        problems: what is wrong so far.
    """

    file: str
    is_json: bool
    places: Places
    problems: list[Problem] = field(default_factory=list)

    def place(self, path: toml_places.Path, key: bool = False) -> Place:
        """Return the place of a value, or of its key."""
        line, column = self.places.key(path) if key else self.places.value(path)
        return Place(self.file, line, column, self.places.line(line))

    def report(
        self, path: toml_places.Path, message: str, remedy: str = "", key: bool = False
    ) -> None:
        """Note a problem with a value, or with its key.

        A value that holds a date or a number that cannot be read was reported for that.
        """
        unread = (odd.path[: len(path)] for odd in self.places.odd if odd.kind != "twice")
        if key or path not in unread:
            self.add(Problem(message, remedy, self.place(path, key)))

    def add(self, *problems: Problem) -> None:
        """Note problems; raise when there are more than anyone reads."""
        self.problems += problems
        if len(self.problems) >= MAX_PROBLEMS:
            self.problems.append(
                Problem(f"more than {MAX_PROBLEMS} problems", "", Place(self.file))
            )
            self.stop()

    def stop(self) -> NoReturn:
        """Raise everything that is wrong, in the order of the file."""
        found = dict.fromkeys(self.problems)
        raise InputError(sorted(found, key=lambda p: (p.place.line or 2**31, p.place.column)))


def read_source(path: Path, file: str) -> tuple[Source, dict[str, object]]:
    """Return a file, and what it says.

    Raises:
        InputError: the file cannot be read, is no text, or is neither TOML nor JSON.
    """
    text = _text(path, file)
    is_json = path.suffix.lower() == ".json"
    try:
        places = toml_places.scan(text, json=is_json)
    except TooDeepError as error:
        place = Place(file, error.line, error.column)
        remedy = f"At most {toml_places.MAX_DEPTH} levels are read."
        raise InputError([Problem("the file is nested too deeply", remedy, place)]) from None
    source = Source(file, is_json, places)
    for odd in places.odd:
        message, remedy = _ODD[odd.kind]
        line, column = places.position(odd.offset)
        place = Place(file, line, column, places.line(line))
        first, _ = places.key(odd.path)
        source.add(Problem(message.format(_shown(odd)), remedy.format(first), place))
    try:
        found = _from_json(places.repaired) if is_json else _from_toml(places.repaired)
    except tomllib.TOMLDecodeError as error:
        source.add(_toml_problem(source, str(error)))
        source.stop()
    except json.JSONDecodeError as error:
        place = Place(file, error.lineno, error.colno, places.line(error.lineno))
        source.add(Problem(f"this is no JSON: {error.msg}", "", place))
        source.stop()
    except (ValueError, RecursionError, OverflowError) as error:
        source.add(Problem(f"the file cannot be read: {error}", "", Place(file)))
        source.stop()
    if not isinstance(found, dict):
        source.add(Problem("a plan is a table", "Write {...}.", Place(file, 1, 1, places.line(1))))
        source.stop()
    return source, found


def _shown(odd: toml_places.Odd) -> str:
    return odd.text if len(odd.text) < 40 else f"{odd.text[:20]}... of {len(odd.text)} characters"


def _text(path: Path, file: str) -> str:
    """Return the text of a file; line ends of Windows become plain ones."""

    def fail(message: str, remedy: str = "", line: int = 0) -> NoReturn:
        raise InputError([Problem(message, remedy, Place(file, line))])

    try:
        if not stat.S_ISREG(path.stat().st_mode):
            fail("this is no file", "Name a plan: a .toml or .json file.")
        with path.open("rb") as stream:
            data = stream.read(MAX_BYTES + 1)
    except OSError as error:
        fail(f"cannot be read: {error.strerror}")
    except ValueError:
        fail("this is no path", "A path holds no NUL.")
    if len(data) > MAX_BYTES:
        fail("the file is too large", f"At most {MAX_BYTES // 2**20} MiB are read.")
    try:
        text = data.decode("utf-8-sig").replace("\r\n", "\n")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        fail(f"the file is not UTF-8: byte 0x{data[error.start]:02x}", "Save it as UTF-8.", line)
    nul = text.find("\0")
    if nul >= 0:
        fail("the file holds a NUL character", "A plan is a text.", text.count("\n", 0, nul) + 1)
    return text


def _from_toml(text: str) -> object:
    return tomllib.loads(text, parse_float=_exact)


def _from_json(text: str) -> object:
    return json.loads(text, parse_float=_exact, parse_constant=float)


def _exact(text: str) -> Fraction | float:
    """Return a decimal number as it is written; NaN where it is too large or too small for that."""
    number = float(text)
    if abs(number) == float("inf") or (abs(number) < 1e-300 and _NONZERO.match(text)):
        return number if "inf" in text else float("nan")
    return number if number != number else Fraction(text.replace("_", ""))


def _toml_problem(source: Source, text: str) -> Problem:
    match = _AT.fullmatch(text)
    message, line, column = match.groups() if match else (text, None, None)
    if match and line is None:
        line, column = source.places.position(len(source.places.text.rstrip()))
    place = Place(source.file, int(line or 0), int(column or 0))
    place = Place(place.file, place.line, place.column, source.places.line(place.line))
    remedy = next((r for start, r in _REMEDIES.items() if message.startswith(start)), "")
    return Problem(f"this is no TOML: {message}", remedy, place)
