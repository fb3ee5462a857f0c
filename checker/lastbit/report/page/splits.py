"""Drift against the number of pieces that a sum is split into, where a result holds several.

A step counts where its number of pieces is one constant: its witness states it, and no promise of
invariance is broken after it, so that it depends on neither the batch nor the number of devices.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from lastbit.errors import LastbitError
from lastbit.report.page.escape import escaped
from lastbit.report.page.witness import parsed
from lastbit.report.words import number, percent
from lastbit.result import Drift, Step
from lastbit.schedule import Split
from lastbit.statement import Statement

_HEIGHT, _BELOW = 120, 18


@dataclass(frozen=True, slots=True)
class Point:
    """A step whose sum is split.

    Attributes:
        pieces: into how many.
        drift: what it does to the result.
        anchor: of the step.
    """

    pieces: int
    drift: Drift
    anchor: str


def split_points(steps: Sequence[tuple[str, Step]]) -> dict[tuple[str, str, str], list[Point]]:
    """Return the steps that split one value into constant numbers of pieces, by value.

    A group has one rule, one value and one format, and at least two different numbers of pieces.
    """
    groups: dict[tuple[str, str, str], list[Point]] = {}
    for anchor, step in steps:
        if step.drift is None or step.drift.max_ulp_at_scale is None or len(step.at) != 1:
            continue
        if pieces := _pieces(step):
            key = (step.rule or "difference", step.at[0], step.drift.format)
            groups.setdefault(key, []).append(Point(pieces, step.drift, anchor))
    return {
        key: sorted(points, key=lambda point: point.pieces)
        for key, points in groups.items()
        if len({point.pieces for point in points}) > 1
    }


def _pieces(step: Step) -> int | None:
    """Return the number of pieces that a step splits a sum into; None where it is not known."""
    invariances = [step.promises.get(name) for name in ("batch_invariant", "layout_invariant")]
    if any(promise is None or promise.after is not True for promise in invariances):
        return None
    program = step.witness.program if step.witness is not None else None
    if program is None:
        return None
    try:
        before, after = parsed(program.before), parsed(program.after)
    except (LastbitError, RecursionError):
        return None
    given = {_split(st) for st in before.statements}
    found = {_split(st) for st in after.statements} - given - {None}
    return found.pop() if len(found) == 1 else None


def _split(statement: Statement) -> int | None:
    schedule = statement.schedule
    if isinstance(schedule, Split) and isinstance(schedule.n, int):
        return schedule.n
    return None


def split_charts(steps: Sequence[tuple[str, Step]]) -> str:
    """Return a chart for each value that several steps split; empty where there is none."""
    return "".join(_chart(*key, points) for key, points in split_points(steps).items())


def _chart(rule: str, value: str, fmt: str, points: Sequence[Point]) -> str:
    logs = [math.log2(point.pieces) for point in points]
    first, last = min(logs), max(logs)
    scales = [point.drift.max_ulp_at_scale or 0.0 for point in points]
    most = max(scales)
    marks, at_once = [], []
    for point, log, scale in zip(points, logs, scales, strict=True):
        x = f"{5 + 90 * (log - first) / (last - first):.4g}%"
        share = scale / most if most and math.isfinite(most) else 0.0
        y = f"{_HEIGHT - 6 - (_HEIGHT - 30) * share:.4g}"
        told = f"{number(scale)} ulp, {percent(point.drift.share)}"
        marks.append(f'<line class=g x1="{x}" x2="{x}" y1="{_HEIGHT - 4}" y2="{y}"/>')
        marks.append(f'<circle class=s cx="{x}" cy="{y}" r=4><title>{told}</title></circle>')
        marks.append(
            f'<text class=k x="{x}" y="{_HEIGHT + 12}" text-anchor=middle>{point.pieces}</text>'
        )
        at_once.append(f"{point.pieces} pieces {told}")
    title = f"{escaped(rule)} at <code>{escaped(value)}</code>: drift against the number of pieces"
    label = escaped("; ".join(at_once))
    return (
        f"<figure class=chart><figcaption><b>{title}</b> most at scale, up to {number(most)} ulp "
        f'of {escaped(fmt)}; the axis is logarithmic</figcaption><svg width="100%" '
        f'height={_HEIGHT + _BELOW} role=img aria-label="{label}">{"".join(marks)}</svg></figure>'
    )
