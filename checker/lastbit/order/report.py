"""What was revealed, as text and as JSON."""

from __future__ import annotations

from typing import Any, Final

from lastbit.order.draw import DRAWN, draw
from lastbit.order.findings import NoTreeError
from lastbit.order.reveal import Order
from lastbit.order.tree import OrderTree

SCHEMA: Final = "lastbit.order/1"
WRITTEN: Final = 200  # characters of a schedule that are shown


def text(order: Order, drawn: bool | None = None) -> str:
    """Write an order for a terminal.

    Args:
        order: what was revealed.
        drawn: whether to draw the tree; by default small ones.
    """
    tree = order.tree
    rows = f" in calls of {_count(order.rows, 'row')}" if order.rows else ""
    lines = [f"{order.label}: {_count(tree.leaves, 'element')} of {order.format}{rows}"]
    lines += [_row("schedule", piece) for piece in _schedule(order)]
    lines += [_row("tree", _steps(tree)), _row("hash", tree.hash)]
    if order.step_digits is not None:
        known = f"; so does {' and '.join(order.machines)}" if order.machines else ""
        seen = f"keeps {order.step_digits} binary digits below its largest term{known}"
        lines.append(_row("step", seen))
    if order.accumulator:
        stored = f", stored as {order.result}" if order.result != order.accumulator else ""
        seen = f"{order.accumulator}{stored}: gives the function's bits on random vectors"
        lines.append(_row("accumulator", seen))
    checks = f" ({order.checks:,} of them to check)" if order.checks else ""
    calls = f"{_count(order.calls, 'call')}{checks}, {_count(order.probes, 'probe')}"
    lines.append(_row("found", f"{order.method}: {calls}"))
    lines += [_row("note", note) for note in order.notes]
    shown = "".join(f"{line}\n" for line in lines)
    if drawn or (drawn is None and tree.leaves <= DRAWN):
        shown += "\n" + draw(tree)
    return shown


def _schedule(order: Order) -> list[str]:
    found = order.schedules()
    if not found:
        form = "" if order.form is None else f": {order.form}"
        return [f"no known machine does its steps{form}"]
    texts = [str(schedule) for schedule in found]
    if len(texts[0]) > WRITTEN:
        return ["none of the known forms; the explicit tree is in --format json"]
    return texts


def _steps(tree: OrderTree) -> str:
    steps = [f"{_count(c, 'step')} of {w} terms" for w, c in tree.widths.items()]
    return f"{', '.join(steps) or 'no step'}, depth {tree.depth:,}"


def _row(name: str, content: str) -> str:
    return f"    {name:<12}  {content}"


def _count(total: int, noun: str) -> str:
    return f"{total:,} {noun}{'' if total == 1 else 's'}"


def as_json(order: Order) -> dict[str, Any]:
    """Return an order as JSON values."""
    return {
        "target": order.label,
        "n": order.tree.leaves,
        "format": order.format.short,
        "rows": order.rows,
        "tree": tree_json(order.tree),
        "schedules": [str(schedule) for schedule in order.schedules()],
        "accumulator": order.accumulator,
        "result": order.result,
        "step_digits": order.step_digits,
        "method": order.method,
        "calls": order.calls,
        "checks": order.checks,
        "probes": order.probes,
        "notes": list(order.notes),
    }


def tree_json(tree: OrderTree) -> dict[str, Any]:
    """Return a tree in its canonical form as JSON values."""
    widths = {str(width): count for width, count in tree.widths.items()}
    steps = [list(step) for step in tree.canonical.steps]
    return {"hash": tree.hash, "depth": tree.depth, "widths": widths, "steps": steps}


def finding_json(error: NoTreeError, n: int, fmt: str) -> dict[str, Any]:
    """Return as JSON values why a function has no tree."""
    finding = {"kind": error.kind, "reason": error.reason}
    return {"target": error.label, "n": n, "format": fmt, "tree": None, "finding": finding}
