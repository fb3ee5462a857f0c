"""Keep what an audit has finished, so that one that was interrupted goes on where it stopped.

A journal is a file of JSON lines: first what was asked, then one line for each finished case,
written at once. A line that was cut off by the end of the process is dropped; its case is audited
again.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, BinaryIO, Generic, Self, TypeVar

from lastbit.audit.sources import SOURCE
from lastbit.codec import CodecError, from_plain, to_plain
from lastbit.errors import InputError, Place, Problem

_Record = TypeVar("_Record")

_REMEDY = "Give the audit of before again, another file, or remove this one."


class Journal(Generic[_Record]):
    """The finished cases of one audit, in memory and on disk.

    Attributes:
        path: the file, as the user wrote it.
        done: the finished cases by key, those of earlier runs included.
    """

    def __init__(self, path: str, asked: Mapping[str, Any], kind: type[_Record]) -> None:
        """Open a journal, or begin one.

        Args:
            path: the file; begun where there is none.
            asked: what decides the results: target, its source, sizes, seed, versions. JSON values.
            kind: the dataclass of a finished case.

        Raises:
            InputError: the file cannot be read or written, is no journal, or belongs to an audit
                that asked for something else. It is left as it was.
        """
        self.path, self._kind = path, kind
        self.done: dict[str, _Record] = {}
        try:
            kept = self._read(asked)
            self._file: BinaryIO = Path(path).open("ab")  # noqa: SIM115 - close() does
            self._file.truncate(kept)
        except OSError as error:
            problem = Problem(f"the journal cannot be opened: {error.strerror}", place=Place(path))
            raise InputError([problem]) from error
        if not kept:
            self._write(dict(asked))

    def add(self, key: str, record: _Record) -> None:
        """Keep a finished case; when this returns, it outlives the process.

        Raises:
            InputError: the disk is full, or the file cannot be written any more.
        """
        self.done[key] = record
        self._write({"key": key, "case": to_plain(record)})

    def close(self) -> None:
        """Close the file, which stays."""
        self._file.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def _write(self, value: Mapping[str, Any]) -> None:
        try:
            self._file.write(_line(value))
            self._file.flush()
            os.fsync(self._file.fileno())
        except OSError as error:
            message = f"the journal cannot be written: {error.strerror}"
            raise InputError([Problem(message, place=Place(self.path))]) from error

    def _read(self, asked: Mapping[str, Any]) -> int:
        """Read what is there; return the bytes that whole lines take."""
        path = Path(self.path)
        if not path.exists():
            return 0
        kept = 0
        with path.open("rb") as lines:
            for number, line in enumerate(lines, 1):
                if not line.endswith(b"\n"):
                    if number == 1 and not _line(asked).startswith(line):
                        raise self._no_journal("its first line is not whole", number)
                    break
                self._take(line, number, asked)
                kept += len(line)
        return kept

    def _take(self, line: bytes, number: int, asked: Mapping[str, Any]) -> None:
        try:
            value = json.loads(line)
        except (ValueError, RecursionError):
            raise self._no_journal("a line is no JSON", number) from None
        if not isinstance(value, dict):
            raise self._no_journal("a line is no JSON object", number)
        if number == 1:
            self._compare(value, asked)
            return
        if not isinstance(value.get("key"), str):
            raise self._no_journal("a line names no case", number)
        try:
            self.done[value["key"]] = from_plain(self._kind, value.get("case"), "case")
        except CodecError as error:
            raise self._no_journal(str(error), number) from error

    def _compare(self, found: Mapping[str, Any], asked: Mapping[str, Any]) -> None:
        names = [name for name in asked if found.get(name) != asked[name]]
        if not names:
            return
        if not found.keys() & asked.keys():
            raise self._no_journal("its first line says of no audit what was asked", 1)
        name = names[0]
        if name == SOURCE:
            what = asked.get("target", "the target")
            message = f"the journal is that of another source: {what} was edited since"
            remedy = "Give another file, or remove this one: what it keeps is of the old source."
            raise InputError([Problem(message, remedy, Place(self.path, 1))])
        message = f"the journal is that of another audit: {name} was {found.get(name)!r} there"
        place = Place(self.path, 1)
        raise InputError([Problem(f"{message} and is {asked[name]!r} now", _REMEDY, place)])

    def _no_journal(self, why: str, line: int) -> InputError:
        message = f"the file is no journal of an audit: {why}"
        return InputError([Problem(message, _REMEDY, Place(self.path, line))])


def _line(value: Mapping[str, Any]) -> bytes:
    return json.dumps(value, allow_nan=False).encode() + b"\n"
