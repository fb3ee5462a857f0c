"""The archive of a `.pt2` file: a zip that holds the graph as JSON, among pickles and weights.

Only the JSON is read, within bounds, and nothing is unpacked to disk.
"""

from __future__ import annotations

import json
import os
import re
import stat
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path, PurePosixPath
from typing import Any

from lastbit.importers.imported import ImportedFileError

MOST_ENTRIES = 100_000  # files inside an archive
MOST_DIRECTORY = 64 * 2**20  # bytes of an archive's list of files
MOST_JSON = 32 * 2**20  # bytes of a graph
SCHEMA = 8  # of the graph; torch 2.8 to 2.13 write it

_MODEL = re.compile(r"[^/]+/models/[^/]+\.json", re.ASCII)
_OLD = "serialized_exported_program.json"


def read_model(path: str) -> dict[str, Any]:
    """Return the JSON of the graph in a `.pt2` file, checked for its schema only.

    Args:
        path: the file, as the user named it.

    Raises:
        ImportedFileError: the file cannot be read, is no such archive, or is too large.
    """
    with opened(path) as archive:
        text = _text(path, archive)
    return _checked(path, _parsed(path, text))


@contextmanager
def opened(path: str) -> Iterator[zipfile.ZipFile]:
    """Open a file as an archive; what goes wrong while it is open is an error about the file.

    Raises:
        ImportedFileError: it cannot be read or unpacked.
    """
    try:
        mode = Path(path).stat().st_mode
        if not stat.S_ISREG(mode):
            raise ImportedFileError(path, "this is no regular file", "Give a .pt2 file.")
        with zipfile.ZipFile(_bounded(path)) as archive:
            yield archive
    except OSError as error:
        why = error.strerror or str(error)
        raise ImportedFileError(path, f"cannot be read: {why}", "") from None
    except (zipfile.BadZipFile, zlib.error, EOFError, ValueError) as error:
        raise ImportedFileError(
            path, f"this is no sound zip archive: {error}", "Write it with torch.export.save."
        ) from None
    except RuntimeError as error:  # encrypted, or compressed in a way that Python lacks
        raise ImportedFileError(
            path, f"the archive cannot be unpacked: {error}", "Write it with torch.export.save."
        ) from None


def _bounded(path: str) -> str:
    """Return the path if the archive's list of files is of a size that can be read."""
    with open(path, "rb") as stream:
        size = stream.seek(0, os.SEEK_END)
        tail = min(size, 22 + 2**16)
        stream.seek(size - tail)
        end = stream.read(tail)
    at = end.rfind(b"PK\x05\x06")
    if at >= 0 and len(end) >= at + 16:
        length = int.from_bytes(end[at + 12 : at + 16], "little")
        if MOST_DIRECTORY < length < 2**32 - 1 or size > 2**40:
            raise ImportedFileError(
                path, f"its list of files has {length} bytes", f"At most {MOST_DIRECTORY} are read."
            )
    return path


def _text(path: str, archive: zipfile.ZipFile) -> bytes:
    names = archive.namelist()
    checked_names(path, names)
    found = [name for name in names if _MODEL.fullmatch(name)]
    if not found:
        raise ImportedFileError(path, *_other(names))
    if len(set(found)) > 1:
        listed = ", ".join(sorted(name.rpartition("/")[2] for name in found)[:10])
        raise ImportedFileError(
            path, f"the archive holds {len(found)} models: {listed}", "Save one model a file."
        )
    info = archive.getinfo(found[0])
    if info.file_size > MOST_JSON:
        raise ImportedFileError(
            path, f"its graph has {info.file_size} bytes", f"At most {MOST_JSON} are read."
        )
    with archive.open(info) as stream:
        text = stream.read(MOST_JSON + 1)
    if len(text) > MOST_JSON:
        raise ImportedFileError(
            path, f"its graph has more than {MOST_JSON} bytes", "A .pt2 file says how long it is."
        )
    return text


def checked_names(path: str, names: list[str]) -> None:
    """Refuse an archive of too many files, or with paths that lead out of it.

    Raises:
        ImportedFileError: it is one.
    """
    if len(names) > MOST_ENTRIES:
        raise ImportedFileError(
            path, f"the archive holds {len(names)} files", f"At most {MOST_ENTRIES} are read."
        )
    for name in names:
        if name.startswith(("/", "\\")) or ".." in PurePosixPath(name.replace("\\", "/")).parts:
            raise ImportedFileError(
                path, f"the archive holds {name[:80]!r}, a path that leads out of it", ""
            )


def _other(names: list[str]) -> tuple[str, str]:
    """Return what an archive without a graph is, and what to do."""
    last = {name.rpartition("/")[2] for name in names}
    if _OLD in last:
        return "the archive is in the form of torch 2.7 and before", "Export it again with 2.8 on."
    if "data.pkl" in last:
        return (
            "this is a pickle, which is not read: it could run any program",
            "Write the graph with torch.export.save.",
        )
    return "the archive holds no models/*.json", "Write it with torch.export.save."


def _parsed(path: str, text: bytes) -> object:
    try:
        return json.loads(text)
    except RecursionError:
        raise ImportedFileError(path, "its graph is nested too deeply", "") from None
    except (json.JSONDecodeError, UnicodeDecodeError, MemoryError) as error:
        raise ImportedFileError(path, f"its graph is no JSON: {error}", "") from None
    except ValueError:  # of int(), whose text is about Python
        cause = "its graph holds a number of more digits than any size or constant has"
        raise ImportedFileError(path, cause, "The file is damaged; write it again.") from None


def _checked(path: str, model: object) -> dict[str, Any]:
    version = model.get("schema_version") if isinstance(model, dict) else None
    major = version.get("major") if isinstance(version, dict) else None
    if not isinstance(model, dict) or type(major) is not int:
        raise ImportedFileError(
            path, "its graph has no `schema_version`", "Write it with torch.export.save."
        )
    if major != SCHEMA:
        raise ImportedFileError(
            path,
            f"its graph has schema version {major}",
            f"Version {SCHEMA} is read (torch 2.8 to 2.13).",
        )
    return model
