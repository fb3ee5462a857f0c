"""Write files so that a reader never sees half of one."""

from __future__ import annotations

import os
import secrets
from pathlib import Path

from lastbit.errors import InputError, Place, Problem


def write_atomically(path: str, text: str) -> None:
    """Replace a file by new text in one move; a device or a pipe is written to as it is.

    Raises:
        InputError: the file cannot be written; an existing one is left as it was.
    """
    write_bytes_atomically(path, text.encode("utf-8"))


def write_bytes_atomically(path: str, content: bytes | memoryview) -> None:
    """Replace a file by new bytes in one move; a device or a pipe is written to as it is.

    Raises:
        InputError: the file cannot be written; an existing one is left as it was.
    """
    target = Path(os.path.realpath(path))
    try:
        if target.exists() and not target.is_file():
            target.write_bytes(content)
            return
        _replace(target, content)
    except OSError as error:
        problem = Problem(f"cannot be written: {error.strerror}", place=Place(path))
        raise InputError([problem]) from error


def require_folder(path: str) -> None:
    """Refuse, before long work, a file that could not be written after it.

    Raises:
        InputError: the folder of the file does not exist, or the path names a folder.
    """
    target = Path(os.path.realpath(path))
    if target.is_dir() or not target.parent.is_dir():
        reason = "Is a directory" if target.is_dir() else "No such file or directory"
        raise InputError([Problem(f"cannot be written: {reason}", place=Place(path))])


def _replace(target: Path, content: bytes | memoryview) -> None:
    beside = target.with_name(f".{target.name}.{secrets.token_hex(4)}")
    try:
        with beside.open("xb") as stream:
            stream.write(content)
        if target.exists():
            beside.chmod(target.stat().st_mode & 0o777)
        beside.replace(target)
    finally:
        beside.unlink(missing_ok=True)
