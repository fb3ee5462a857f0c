"""Where a node comes from: the line of the user's source, and the module."""

from __future__ import annotations

import re
from typing import Any

from lastbit.errors import Place
from lastbit.tracing.source import shown_file

_FRAME = re.compile(r'File "([^"\n]{1,1000})", line (\d{1,9})')
_LIBRARY = re.compile(r"[/\\]site-packages[/\\]torch[/\\]|[/\\]torch[/\\](nn|_|functional)")


def origin(node: Any) -> tuple[Place, str]:
    """Return the line of the user's source that a node comes from, and its module."""
    data = node.get("metadata")
    data = data if isinstance(data, dict) else {}
    trace, stack = data.get("stack_trace"), data.get("nn_module_stack")
    place = Place()
    if isinstance(trace, str):
        frames = [f for f in _FRAME.findall(trace[-20_000:]) if not f[0].startswith("<")]
        own = [frame for frame in frames if not _LIBRARY.search(frame[0])]
        for file, line in (own or frames)[-1:]:
            place = Place(shown_file(file), int(line))
    module = ""
    if isinstance(stack, str):
        parts = stack[-2000:].rpartition(";")[2].split(",")
        module = parts[1] if len(parts) > 2 else ""
    return place, module
