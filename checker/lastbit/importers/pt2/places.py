"""Where a node comes from: the line of the user's source, and the module."""

from __future__ import annotations

import re
from typing import Any

from lastbit.errors import Place
from lastbit.tracing.source import shown_file

_FRAME = re.compile(r'File "([^"\n]{1,1000})", line (\d{1,9})')
_LIBRARY = re.compile(r"[/\\]site-packages[/\\]torch[/\\]|[/\\]torch[/\\](nn|_|functional)")


def own_frames(trace: str) -> list[tuple[str, int]]:
    """Return files and lines of a stack trace, the outermost first: the user's, else torch's."""
    found = [f for f in _FRAME.findall(trace[-20_000:]) if not f[0].startswith("<")]
    own = [frame for frame in found if not _LIBRARY.search(frame[0])]
    return [(file, int(line)) for file, line in own or found]


def origin(node: Any) -> tuple[Place, str]:
    """Return the line of the user's source that a node comes from, and its module."""
    data = node.get("metadata")
    data = data if isinstance(data, dict) else {}
    trace, stack = data.get("stack_trace"), data.get("nn_module_stack")
    place = Place()
    if isinstance(trace, str):
        for file, line in own_frames(trace)[-1:]:
            place = Place(shown_file(file), line)
    module = ""
    if isinstance(stack, str):
        parts = stack[-2000:].rpartition(";")[2].split(",")
        module = parts[1] if len(parts) > 2 else ""
    return place, module
