"""The two programs of a witness as graphs: a line for each value, an arc for each use.

A dot before a value is a rounding point, a ring a value that stays exact; what is not the same on
both sides is marked.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass

from lastbit.report.page.escape import escaped
from lastbit.report.page.layout import side_figure
from lastbit.statement import Statement
from lastbit.text import Program

MOST_LINES = 40
MOST_CHARACTERS = 96
_ROW = 20
_ADVANCE = 7.3  # of a character of the fixed-width face at 12 px, at most
_WORD = re.compile(r"[A-Za-z_]\w*")
_UNNAMED = re.compile(r"\bv\d+\b")


@dataclass(frozen=True, slots=True)
class _Line:
    """A value of a program.

    Attributes:
        key: by which the same value is known on the other side.
        text: of the statement.
        masked: the text without the numbers of unnamed values.
        statement: what was parsed.
        uses: the names that it reads.
    """

    key: str
    text: str
    masked: str
    statement: Statement
    uses: tuple[str, ...]


def graphs(before: Program, after: Program, texts: tuple[str, str]) -> str:
    """Return both programs as figures that stand beside each other; empty if they are too long."""
    if max(len(before.statements), len(after.statements)) > MOST_LINES:
        return ""
    sides = _lines(before, texts[0]), _lines(after, texts[1])
    return _figure("before", *sides) + _figure("after", *reversed(sides))


def _lines(program: Program, text: str) -> list[_Line]:
    """Return the values of a program, inputs first, in the order of their names."""
    by_name = {line.partition(":")[0].strip(): line.strip() for line in text.splitlines()}
    names = {st.name for st in program.statements}
    lines = []
    for st in program.statements:
        shown = by_name.get(st.name, st.name)
        masked = _UNNAMED.sub("_", shown)
        key = masked if _UNNAMED.fullmatch(st.name) else st.name
        words = dict.fromkeys(_WORD.findall(st.expr or ""))
        lines.append(_Line(key, shown, masked, st, tuple(w for w in words if w in names)))
    inputs = sorted((line for line in lines if line.statement.expr is None), key=lambda x: x.key)
    return inputs + [line for line in lines if line.statement.expr is not None]


def _figure(side: str, lines: list[_Line], others: list[_Line]) -> str:
    there = {line.masked for line in others}
    paired = {line.key: line for line in reversed(others)}
    at = {line.statement.name: i for i, line in enumerate(lines)}
    spans = [(at[used], i) for i, line in enumerate(lines) for used in line.uses]
    lane = round(8 + max((_bend(j - i) * 0.75 for i, j in spans), default=0))
    dots, texts = [], []
    for i, line in enumerate(lines):
        moved = line.masked not in there and _moved(line, paired.get(line.key))
        dots.append(_dot(line.statement, moved, i * _ROW + _ROW // 2))
        texts.append(f"<text y={i * _ROW + _ROW // 2 + 4}>{_text(line.text)}</text>")
    longest = max((min(len(line.text), MOST_CHARACTERS) for line in lines), default=0)
    width = round(lane + 16 + _ADVANCE * longest)
    marked = [i for i, line in enumerate(lines) if line.masked not in there]
    bands = "".join(f"M0 {i * _ROW}h{width}v{_ROW}h-{width}" for i in marked)
    label = f"Program {side}: {len(lines)} values, {len(marked)} not the same on the other side"
    drawn = (
        f'<svg class=arcs width={width} height={len(lines) * _ROW} role=img aria-label="{label}">'
        f'<path class=t d="{bands}"/><g transform=translate({lane})>'
        f'<path class=a d="{"".join(_arc(i, j) for i, j in spans)}"/>{"".join(dots)}</g>'
        f"<g transform=translate({lane + 9})>{''.join(texts)}</g></svg>"
    )
    return side_figure(side, drawn, f"Program {side}")


def _text(text: str) -> str:
    shown = text
    if len(text) > MOST_CHARACTERS:
        shown = text[: MOST_CHARACTERS - 1] + "\u2026"
    title = f"<title>{escaped(text)}</title>" if shown != text else ""
    head, colon, rest = shown.partition(":")
    return f"{title}<tspan>{escaped(head)}</tspan>{colon}{escaped(rest)}"


def _bend(rows: int) -> float:
    return 10 + 7 * math.pow(min(rows, 7), 0.8)


def _arc(i: int, j: int) -> str:
    y, down, x = i * _ROW + _ROW // 2, (j - i) * _ROW, -round(_bend(j - i))
    return f"M0 {y}c{x} 0 {x} {down} 0 {down}"


def _moved(line: _Line, other: _Line | None) -> bool:
    """Return whether a value is rounded otherwise than on the other side, or is not there."""
    return other is None or other.statement.rounding != line.statement.rounding


def _dot(statement: Statement, moved: bool, y: int) -> str:
    if statement.expr is None:
        return f"<circle class=i cy={y} r=2 />"
    kind = "r" if statement.rounding is not None else "e"
    return f'<circle class="{kind}{" d" * moved}" cy={y} r=4 />'
