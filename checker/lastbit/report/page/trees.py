"""A tree of additions as a figure: terms in rows, in the order in which it reads them.

A filled dot is an addition whose rounding lost something on these terms.
"""

from __future__ import annotations

from lastbit.report.page.escape import escaped
from lastbit.report.page.layout import side_figure
from lastbit.report.page.numbers import exact_text
from lastbit.report.page.sums import Pair, Sum

_ROW, _STEP = 16, 15
_NUMBER, _ADVANCE = 30, 7.3  # width of a term's number; of a digit


def tree_figures(pair: Pair) -> str:
    """Return both trees, to stand beside each other."""
    sides = zip(("before", "after"), pair.schedules, pair.roots, strict=True)
    return "".join(_figure(*side, pair.index) for side in sides)


class _Layout:
    """Places of the nodes of a tree, and what is drawn of them."""

    def __init__(self, index: tuple[int, ...]) -> None:
        self.index = index
        self.rows: list[str] = []
        self.lines: list[str] = []
        self.dots: list[str] = []
        self.losses = 0
        self.label = 0.0  # width of the widest term

    def measure(self, node: Sum) -> int:
        """Return the number of additions from a node down to the farthest term."""
        if not node.parts:
            value = node.value(self.index)
            self.label = max(self.label, _ADVANCE * len("" if value is None else exact_text(value)))
            return 0
        return 1 + max(self.measure(part) for part in node.parts)

    def place(self, node: Sum) -> tuple[int, float, int]:
        """Draw what lies below a node; return its place and its height."""
        if not node.parts:
            middle = len(self.rows) * _ROW + _ROW // 2
            self.rows.append(self._term(node, middle))
            return 0, middle, 0
        places = [self.place(part) for part in node.parts]
        height = 1 + max(h for _, _, h in places)
        x, y = height * _STEP, round((places[0][1] + places[-1][1]) / 2, 1)
        for at, row, _ in places:
            self.lines.append(f"M{at} {row:g}H{x}V{y:g}")
        loses = node.loses(self.index)
        self.losses += loses
        value = node.value(self.index)
        told = "" if value is None else f": {exact_text(value)}"
        title = f"<title>{escaped(node.word + told)}</title>"
        kind = " class=l" if loses else ""
        self.dots.append(f"<circle{kind} cx={x} cy={y:g} r=3.5>{title}</circle>")
        return x, y, height

    def _term(self, node: Sum, y: int) -> str:
        value = node.value(self.index)
        shown = "" if value is None else exact_text(value)
        dim = " class=z" if value == 0 else ""
        return (
            f"<text class=k x={-round(self.label) - _NUMBER} y={y + 4}>{escaped(node.word)}</text>"
            f"<text{dim} x=-6 y={y + 4}>{shown}</text>"
        )


def _figure(side: str, schedule: str, root: Sum, index: tuple[int, ...]) -> str:
    layout = _Layout(index)
    layout.measure(root)
    x, y, _ = layout.place(root)
    value = root.value(index)
    result = "" if value is None else exact_text(value)
    left = round(layout.label) + _NUMBER
    width = left + x + 16 + _ADVANCE * len(result)
    terms = len(layout.rows)
    label = f"Tree {side}: {terms} terms, result {result or 'not computed'}"
    if value is not None:
        lose = "addition loses" if layout.losses == 1 else "additions lose"
        label += f", {layout.losses} {lose} something"
    drawn = (
        f'<svg class=tree width={width:.0f} height={terms * _ROW} role=img aria-label="{label}">'
        f'<g transform=translate({left})><path d="{"".join(layout.lines)}"/>'
        f"{''.join(layout.dots)}{''.join(layout.rows)}"
        f"<text class=v x={x + 9} y={y + 4:g}>{result}</text></g></svg>"
    )
    return side_figure(f"{side}: <code>{escaped(schedule)}</code>", drawn, f"Tree {side}")
