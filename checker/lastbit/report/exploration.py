"""Alternatives in a table for a terminal, and as JSON."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import Any

from lastbit.cost.apart import is_partial, shown
from lastbit.cost.kernels import Kernel
from lastbit.cost.placement import ALL, Tile
from lastbit.cost.search import Choice
from lastbit.cost.units import size
from lastbit.costing import undecided
from lastbit.exploring import Exploration, Found
from lastbit.graph import Reduce
from lastbit.report.words import plural

SCHEMA = "lastbit.explore/1"


def render(found: Exploration, top: int) -> str:
    """Return the best alternatives and the front as text.

    Args:
        found: what was found.
        top: how many alternatives to list.
    """
    lines = [_head(found), *_start(found)]
    ranked, front = found.ranked, found.front
    if not ranked:
        return "\n".join([*lines, "", "Nothing fits.", *_forbidden(found)]) + "\n"
    lines += ["", f"Least traffic, {min(top, len(ranked))} of {len(ranked)}{_merged(found)}"]
    lines += _table(ranked[:top])
    lines += ["", "No less traffic with as little local storage"]
    lines += _table(front)
    return "\n".join([*lines, *_placed(found), *_forbidden(found)]) + "\n"


def _head(found: Exploration) -> str:
    partitions = sum(option.explored.partitions for option in found.options)
    at = ", ".join(f"{name} = {value}" for name, value in found.sizes.items())
    text = f"{found.plan}: {plural(found.operators, 'operator')}{f' at {at}' if at else ''}, "
    text += plural(partitions, "partition")
    if len(found.options) > 1:
        text += f" ({len(found.options) - 1} with transforms of the plan, 1 without)"
    if found.device is None:
        return f"{text}; no device is named, and blocks of any size fit"
    block = size(found.device.block_bytes)
    return f"{text}; {found.fit} fit into blocks of {found.device.name} ({block})"


def _merged(found: Exploration) -> str:
    """Say how many alternatives are not listed since a transform changes nothing of their cost."""
    merged = found.fit - len(found.ranked)
    return (
        f"; {merged} more cost the same, with transforms that change none of it" if merged else ""
    )


def _start(found: Exploration) -> Iterator[str]:
    """Yield what the kernels of the plan cost, and what that leaves out."""
    start = found.start
    if start is None:
        return
    local = start.local_bytes
    held = "" if local is None else f", local {size(local)}"
    launches = plural(start.launches, "launch").replace("launchs", "launches")
    yield f"In the kernels of the plan: {size(start.bytes)}, {launches}{held}"
    for text in found.too_large:
        yield f"  no room: {text}"
    for cost in start.kernels:
        if text := undecided(cost):
            yield f"  {text}"
        elif not cost.kernel.tile.cuts and _reduces(cost.kernel):
            yield f"  {_untiled(cost.kernel)}, and is counted as if it read each operand once"


def _untiled(kernel: Kernel) -> str:
    """Say which launch has no tile: of a kernel with one, that which adds its partial sums."""
    names = ", ".join(shown(name) for name in kernel.values)
    partials = ", ".join(shown(name) for name in kernel.reads if is_partial(name))
    return f"the launch that adds {partials} has no tile" if partials else f"{names} has no tile"


def _reduces(kernel: Kernel) -> bool:
    return any(isinstance(need.node, Reduce) for need in kernel.needs)


def _placed(found: Exploration) -> Iterator[str]:
    if found.placed:
        yield ""
        yield "Only places values, and is among these ways where it can be applied"
        yield f"  {', '.join(found.placed)}"


def _table(items: Sequence[Found]) -> Iterator[str]:
    rows = [("traffic", "local", "launches", "kernels [rows x columns x terms of a sum]")]
    rows += [
        (
            size(item.alternative.bytes),
            size(item.alternative.local_bytes) if item.alternative.local_bytes else "-",
            str(item.alternative.launches),
            "; ".join(map(_kernel, item.alternative.choices))
            + (f"  with {', '.join(item.transforms)}" if item.transforms else ""),
        )
        for item in items
    ]
    widths = [max(len(row[column]) for row in rows) for column in range(3)]
    for row in rows:
        cells = (cell.rjust(width) for cell, width in zip(row[:3], widths, strict=True))
        yield f"  {'  '.join(cells)}  {row[3]}"


def _kernel(choice: Choice) -> str:
    """Write a launch: `z (from g, u, t) 128 x 128, 32 terms at a time`."""
    text = "+".join(choice.values)
    if choice.inside:
        text += f" (with {', '.join(choice.inside)})"
    return f"{text}{_tile(choice.tile)}"


def _tile(tile: Tile) -> str:
    if not tile.cuts:
        return ""
    rows, columns = (_length(length) for length in (tile.rows, tile.columns))
    depth = "" if tile.depth in (None, ALL) else f" x {tile.depth}"
    return f" [{rows} x {columns}{depth}]"


def _length(length: int | None) -> str:
    return "all" if length in (None, ALL) else str(length)


def _forbidden(found: Exploration) -> Iterator[str]:
    if found.forbidden:
        yield ""
        yield "Left out: what the plan does not allow"
    for item in found.forbidden:
        yield f"  {item.transform}  {item.code}: {item.reason}"


def to_json(found: Exploration, top: int) -> str:
    """Return the same as JSON."""
    device = found.device
    document = {
        "schema": SCHEMA,
        "command": "explore",
        "plan": found.plan,
        "sizes": dict(found.sizes),
        "device": None if device is None else device.name,
        "block_bytes": None if device is None else device.block_bytes,
        "operators": found.operators,
        "alternatives": {
            "partitions": sum(option.explored.partitions for option in found.options),
            "fit": found.fit,
            "different": len(found.ranked),
        },
        "options": [
            {
                "transforms": list(option.transforms),
                "partitions": option.explored.partitions,
                "fit": len(option.explored.cheapest),
            }
            for option in found.options
        ],
        "start": None
        if found.start is None
        else {
            "bytes": found.start.bytes,
            "local_bytes": found.start.local_bytes,
            "launches": found.start.launches,
            "too_large": list(found.too_large),
        },
        "placed": list(found.placed),
        "cheapest": [_item(item) for item in found.ranked[:top]],
        "front": [_item(item) for item in found.front],
        "forbidden": [
            {"transform": item.transform, "code": item.code, "reason": item.reason}
            for item in found.forbidden
        ],
    }
    return json.dumps(document, indent=2, ensure_ascii=False) + "\n"


def _item(item: Found) -> dict[str, Any]:
    return {
        "transforms": list(item.transforms),
        "bytes": item.alternative.bytes,
        "local_bytes": item.alternative.local_bytes,
        "launches": item.alternative.launches,
        "kernels": [
            {
                "values": list(choice.values),
                "inside": list(choice.inside),
                **{
                    name: _said(getattr(choice.tile, name)) for name in ("rows", "columns", "depth")
                },
                "bytes": choice.bytes,
                "local_bytes": choice.local_bytes,
                "launches": choice.launches,
            }
            for choice in item.alternative.choices
        ],
    }


def _said(length: int | None) -> int | str | None:
    return "all" if length == ALL else length
