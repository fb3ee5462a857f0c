"""Find the importer of a file by its suffix."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path

from lastbit.importers.imported import Imported

# The function that reads each kind of file; its module is imported when one is read.
IMPORTERS = {
    ".pt2": ("lastbit.importers.pt2", "read_pt2"),
    ".onnx": ("lastbit.importers.onnx", "read_onnx"),
}


def is_model(path: str) -> bool:
    """Return whether a path names a model by its suffix."""
    return Path(path).suffix.lower() in IMPORTERS


def load_model(path: str) -> Imported:
    """Return the graph of a model file.

    Args:
        path: the file, as the user named it; `is_model` holds.

    Raises:
        InputError: the file cannot be read, or what reads it is not installed.
    """
    module, name = IMPORTERS[Path(path).suffix.lower()]
    found: Imported = getattr(import_module(module), name)(path)
    return found
