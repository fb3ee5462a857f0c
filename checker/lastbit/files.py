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
    target = Path(os.path.realpath(path))
    try:
        if target.exists() and not target.is_file():
            target.write_text(text, encoding="utf-8", newline="\n")
            return
        _replace(target, text)
    except OSError as error:
        problem = Problem(f"cannot be written: {error.strerror}", place=Place(path))
        raise InputError([problem]) from error


def _replace(target: Path, text: str) -> None:
    beside = target.with_name(f".{target.name}.{secrets.token_hex(4)}")
    try:
        with beside.open("x", encoding="utf-8", newline="\n") as stream:
            stream.write(text)
        if target.exists():
            beside.chmod(target.stat().st_mode & 0o777)
        beside.replace(target)
    finally:
        beside.unlink(missing_ok=True)
