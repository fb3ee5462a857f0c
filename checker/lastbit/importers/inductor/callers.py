"""Where a value of a graph comes from: its line, its module, and the line that calls it.

One line of a norm is run by every layer, so a line alone does not say which call is meant. What
torch.fx prints of a graph names the last line only; the rest stands in the nodes' metadata, which
is read where Inductor's passes are recorded.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any

from lastbit.errors import Place
from lastbit.importers.imported import Origin
from lastbit.importers.pt2.places import own_frames
from lastbit.tracing.source import shown_file

MOST_CALLERS = 3  # that a note lists

_ROOT = re.compile(r"L\[['\"]\w+['\"]\]\.?")


def callers_of(module: Any) -> dict[str, str]:
    """Return for each node of a graph its module and the line that calls its own, in words."""
    found = {}
    for node in module.graph.nodes:
        text = _caller(node.meta)
        if text:
            found[node.name] = text
    return found


def _caller(meta: Mapping[str, Any]) -> str:
    stack = meta.get("nn_module_stack") or meta.get("fwd_nn_module_stack")
    path = ""
    if isinstance(stack, dict) and stack:
        last = list(stack.values())[-1]
        path = _ROOT.sub("", str(last[0])) if isinstance(last, tuple) and last else ""
    frames = own_frames(str(meta.get("stack_trace") or ""))
    parts = [f"in `{path}`"] if path else []
    if len(frames) > 1:
        file, line = frames[-2]
        parts.append(f"called at {shown_file(file)}:{line}")
    return ", ".join(parts)


def caller_note(names: Iterable[str], callers: Mapping[str, str]) -> tuple[str, ...]:
    """Return a note on what calls some nodes; none where that is not known."""
    found = list(dict.fromkeys(callers[name] for name in names if name in callers))
    if not found:
        return ()
    more = f"; and {len(found) - MOST_CALLERS} more" if len(found) > MOST_CALLERS else ""
    return (f"{'; '.join(found[:MOST_CALLERS])}{more}",)


def place_of(names: Iterable[str], origins: Mapping[str, Origin]) -> Place:
    """Return the line of the first of some values whose line is known."""
    places = (origins[name].place for name in names if name in origins)
    return next((one for one in places if one.file), Place())
