"""The recorded debug folders of Inductor, under the names that Inductor gives their files."""

from __future__ import annotations

import shutil
from pathlib import Path

RECORDED = Path(__file__).parent / "data/inductor"


def debug_folder(name: str, folder: Path) -> Path:
    """Copy a recorded folder into another one, and return the copy."""
    copy = folder / name
    copy.mkdir()
    for file in (RECORDED / name).iterdir():
        shutil.copyfile(file, copy / file.name.replace(".py.txt", ".py"))
    return copy
