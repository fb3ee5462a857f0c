"""Which source a target comes from: finished cases of a source that was edited are of no use."""

from __future__ import annotations

import hashlib
import sys
from pathlib import Path
from typing import Final

SOURCE: Final = "source"  # of the facts of an audit's environment
# Their versions are facts of their own, or they are no part of the program.
_INSTALLED: Final = {"site-packages", "dist-packages"}


def source_of(label: str) -> str | None:
    """Return a hash of the file of a target, and of the modules beside it that it has loaded.

    Args:
        label: the target as the user named it, FILE.py:NAME.

    Returns:
        null where there is no such file.
    """
    file = Path(label.rpartition(":")[0] or label)
    if not file.is_file():
        return None
    folder = file.resolve().parent
    paths = {file.resolve()} | {path for path in _loaded() if path.is_relative_to(folder)}
    hashed = hashlib.sha256()
    for path in sorted(paths, key=lambda path: path.relative_to(folder).as_posix()):
        inner = path.relative_to(folder)
        if _INSTALLED & {*inner.parts}:
            continue
        # The folder itself is left out: two machines may have it in two places.
        content = hashlib.sha256(path.read_bytes()).hexdigest()
        hashed.update(f"{inner.as_posix()}\n{content}\n".encode())
    return f"sha256:{hashed.hexdigest()}"


def _loaded() -> set[Path]:
    """Return the source files of the modules that are loaded, those of lastbit left out."""
    found = set()
    for name, module in [*sys.modules.items()]:
        path = getattr(module, "__file__", None)
        if isinstance(path, str) and path.endswith(".py") and name.partition(".")[0] != "lastbit":
            resolved = Path(path).resolve()
            if resolved.is_file():
                found.add(resolved)
    return found
