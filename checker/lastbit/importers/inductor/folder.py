"""The debug folder that Inductor writes: one folder for each graph, of which a few files are read.

`TORCH_COMPILE_DEBUG=1`, or `torch._inductor.config.trace.enabled`, makes it. Everything in it is
data: nothing is run, links are not followed, and files are read within bounds.
"""

from __future__ import annotations

import json
import os
import stat
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lastbit.importers.imported import ImportedFileError

READABLE = "fx_graph_readable.py"  # before Inductor's own passes
TRANSFORMED = "fx_graph_transformed.py"  # after them, before fusion
FUSED = "ir_post_fusion.txt"
PROVENANCE = "inductor_provenance_tracking_node_mappings.json"
RUNNABLE = "fx_graph_runnable.py"  # states the flags in force
OUTPUT = "output_code.py"

MOST_BYTES = 32 * 2**20  # of one file
MOST_DEPTH = 6  # folders in folders
MOST_ENTRIES = 20_000  # files and folders that are looked at
MOST_GRAPHS = 500

HOW = (
    "Write it with TORCH_COMPILE_DEBUG=1, or torch._inductor.config.trace.enabled = True and "
    "trace.provenance_tracking_level = 1."
)


@dataclass(frozen=True, slots=True)
class GraphFolder:
    """The folder of one graph.

    Attributes:
        path: the folder.
        shown: as a report names it.
    """

    path: Path
    shown: str

    def text(self, name: str) -> str | None:
        """Return a file of it; None where there is none.

        Raises:
            ImportedFileError: it is no regular file inside the folder, too large, or no text.
        """
        shown = f"{self.shown}/{name}"
        try:
            handle = os.open(self.path / name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
        except FileNotFoundError:
            return None
        except OSError as error:
            if (self.path / name).is_symlink():
                remedy = "Copy the folder that Inductor wrote; links are not followed."
                raise ImportedFileError(shown, "this is a link", remedy) from None
            raise ImportedFileError(shown, f"cannot be read: {error.strerror}", "") from None
        with os.fdopen(handle, "rb") as stream:
            facts = os.fstat(stream.fileno())
            if not stat.S_ISREG(facts.st_mode):
                raise ImportedFileError(shown, "this is no regular file", HOW)
            data = stream.read(MOST_BYTES + 1)
        if len(data) > MOST_BYTES:
            remedy = "Compile a smaller part of the model."
            raise ImportedFileError(shown, f"it has more than {MOST_BYTES} bytes", remedy)
        try:
            return data.decode()
        except UnicodeDecodeError:
            raise ImportedFileError(shown, "this is no UTF-8 text", HOW) from None

    def kernels(self) -> dict[str, list[str]]:
        """Return for each kernel, in the order of its launches, the nodes that went into it."""
        text = self.text(PROVENANCE)
        if text is None:
            return {}
        shown = f"{self.shown}/{PROVENANCE}"
        try:
            document = json.loads(text)
        except (ValueError, RecursionError) as error:
            cause = "is nested too deeply" if isinstance(error, RecursionError) else str(error)
            raise ImportedFileError(shown, f"this is no JSON: {cause}", HOW) from None
        found = document.get("cppCodeToPost") if isinstance(document, dict) else None
        if not isinstance(found, dict) or not all(map(_are_words, found.values())):
            cause = "`cppCodeToPost` gives no list of nodes for each kernel"
            raise ImportedFileError(shown, cause, HOW)
        return found


def _are_words(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(one, str) for one in value)


def is_debug_folder(path: str) -> bool:
    """Return whether a path is a folder; whether graphs are in it, `graph_folders` says."""
    return os.path.isdir(path)


def graph_folders(path: str) -> list[GraphFolder]:
    """Return the folders of graphs in a debug folder, or the folder itself, by name.

    Raises:
        ImportedFileError: there is none.
    """
    root = Path(path)
    if not root.is_dir():
        raise ImportedFileError(path, "this is no folder", HOW)
    found = []
    for folder in _walk(path, root):
        if (folder / READABLE).exists() or (folder / READABLE).is_symlink():
            inside = folder.relative_to(root)
            shown = path if not inside.parts else f"{path.rstrip(os.sep)}/{inside.as_posix()}"
            found.append(GraphFolder(folder, shown))
            if len(found) > MOST_GRAPHS:
                remedy = "Name the folder of one graph."
                raise ImportedFileError(path, f"there are more than {MOST_GRAPHS} graphs", remedy)
    if not found and Path(path).suffix.lower() in (".pt2", ".onnx"):
        message = f"this is a folder, no model, and no folder in it holds {READABLE}"
        raise ImportedFileError(path, message, f"Name a model's file, or a debug folder. {HOW}")
    if not found:
        raise ImportedFileError(path, f"no folder in it holds {READABLE}", HOW)
    return found


def _walk(path: str, root: Path) -> Iterator[Path]:
    """Yield a folder and those in it, sorted, without following links."""
    seen, stack = 0, [(root, 0)]
    while stack:
        folder, depth = stack.pop()
        yield folder
        if depth == MOST_DEPTH:
            continue
        inner = []
        try:
            with os.scandir(folder) as entries:
                for entry in entries:
                    seen += 1
                    if seen > MOST_ENTRIES:
                        cause = f"there are more than {MOST_ENTRIES} files in it"
                        raise ImportedFileError(path, cause, "Name the folder of one graph.")
                    if entry.is_dir(follow_symlinks=False):
                        inner.append(folder / entry.name)
        except OSError as error:
            raise ImportedFileError(path, f"cannot be read: {error.strerror}", "") from None
        stack += [(one, depth + 1) for one in sorted(inner, reverse=True)]
