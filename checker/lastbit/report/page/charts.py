"""The charts over all steps: drift, and bytes before and after.

Places along a line are percentages, so that a chart is as wide as its column and its text keeps
its size.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from fractions import Fraction

from lastbit.report.page.escape import arrows, escaped
from lastbit.report.page.layout import step_link
from lastbit.report.page.numbers import exact_text
from lastbit.report.words import number, percent, size_pair
from lastbit.result import Cost, Drift, Step

_ROW = 38
_ZERO, _FIRST = 2.0, 8.0  # percent: where zero lies, and the least other figure


def drift_chart(steps: Sequence[tuple[str, Step]]) -> str:
    """Return how far each step's results lie apart; empty where nothing was measured.

    Args:
        steps: the steps, each with its anchor.
    """
    rows = [(anchor, step, step.drift) for anchor, step in steps if step.drift is not None]
    figures = [n for _, _, drift in rows for n in _figures(drift) if _is_drawn(n) and n > 0]
    if not rows or not figures:
        return ""
    least = math.floor(min(math.log2(n) for n in figures))
    most = max(math.ceil(max(math.log2(n) for n in figures)), least + 1)
    ticks = "".join(_ticks(least, most, len(rows)))
    marks = "".join(_drift_row(i, drift, least, most) for i, (_, _, drift) in enumerate(rows))
    labels = "".join(
        f"<li>{step_link(anchor, step)}<span>{_said(drift)}</span>" for anchor, step, drift in rows
    )
    legend = (
        "<svg width=10 height=10><circle class=s cx=5 cy=5 r=4 /></svg> most, at scale "
        "<svg width=10 height=10><circle class=o cx=5 cy=5 r=3.5 /></svg> most, of the result "
        "<svg width=4 height=10><path class=p d=M2,0V10 /></svg> 99th percentile"
    )
    return _chart("Drift, in ulp of each format", legend, labels, ticks + marks, len(rows), 18)


def _figures(drift: Drift) -> list[float]:
    given = (drift.max_ulp_at_scale, drift.max_ulp, drift.p99_ulp)
    return [n for n in given if n is not None]


def _is_drawn(value: float) -> bool:
    return math.isfinite(value) and value >= 0


def _place(value: float, least: int, most: int) -> float:
    if value == 0:
        return _ZERO
    return _FIRST + (98 - _FIRST) * (math.log2(value) - least) / (most - least)


def _ticks(least: int, most: int, rows: int) -> Iterator[str]:
    step = max(1, -(-(most - least) // 5))
    bottom = rows * _ROW
    at = [(f"{_ZERO:g}", "0")]
    for power in range(least, most + 1):
        if power % step == 0:
            at.append((f"{_place(2.0**power, least, most):.4g}", exact_text(Fraction(2) ** power)))
    for x, text in at:
        yield f'<line class=g x1="{x}%" x2="{x}%" y2="{bottom}"/>'
        yield f'<text class=k x="{x}%" y="{bottom + 14}" text-anchor=middle>{text}</text>'


def _drift_row(i: int, drift: Drift, least: int, most: int) -> str:
    y = i * _ROW + 27
    shown = [_place(n, least, most) for n in _figures(drift) if _is_drawn(n)]
    out = []
    if shown:
        ends = f'x1="{min(shown):.4g}%" x2="{max(shown):.4g}%"'
        out.append(f'<line class=w {ends} y1="{y}" y2="{y}"/>')
    if drift.p99_ulp is not None and _is_drawn(drift.p99_ulp):
        x = f"{_place(drift.p99_ulp, least, most):.4g}%"
        out.append(f'<line class=p x1="{x}" x2="{x}" y1="{y - 5}" y2="{y + 5}"/>')
    for kind, value, r in (("o", drift.max_ulp, 3.5), ("s", drift.max_ulp_at_scale, 4)):
        if value is not None and _is_drawn(value):
            x = f"{_place(value, least, most):.4g}%"
            out.append(f'<circle class={kind} cx="{x}" cy="{y}" r={r} />')
    return "".join(out)


def _said(drift: Drift) -> str:
    if drift.max_ulp_at_scale is None:
        return f"{percent(drift.share)} differ"
    at_scale = number(drift.max_ulp_at_scale)
    share = f"<i class=wide>{percent(drift.share)} differ, </i>"
    return f"{share}{at_scale} ulp of {escaped(drift.format)} at scale"


def cost_chart(steps: Sequence[tuple[str, Step]]) -> str:
    """Return the bytes that each step's launches move, before and after; empty where none is known.

    Args:
        steps: the steps, each with its anchor.
    """
    rows = [(anchor, step, step.cost) for anchor, step in steps if step.cost is not None]
    most = max((n for _, _, cost in rows for n in cost.bytes), default=0)
    if not most:
        return ""
    marks = "".join(_cost_row(i, cost, most) for i, (_, _, cost) in enumerate(rows))
    labels = "".join(
        f"<li>{step_link(anchor, step)}<span>{arrows(size_pair(cost.bytes))}</span>"
        for anchor, step, cost in rows
    )
    legend = "<i class=b0></i> before <i class=b1></i> after"
    return _chart("Bytes moved by the launches that differ", legend, labels, marks, len(rows), 0)


def _cost_row(i: int, cost: Cost, most: int) -> str:
    y = i * _ROW + 22
    return "".join(
        f'<rect class=b{side} y="{y + 5 * side}" width="{100 * n / most:.3g}%" height=4 />'
        for side, n in enumerate(cost.bytes)
    )


def _chart(title: str, legend: str, labels: str, marks: str, rows: int, below: int) -> str:
    height = rows * _ROW + below
    return (
        f"<figure class=chart><figcaption><b>{title}</b> <span>{legend}</span></figcaption>"
        f'<div><svg width="100%" height="{height}" aria-hidden=true>{marks}</svg>'
        f"<ol>{labels}</ol></div></figure>"
    )
