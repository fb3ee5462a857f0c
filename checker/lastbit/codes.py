"""Codes of findings that no single rule made: about a difference of two graphs, or a region."""

from __future__ import annotations

from lastbit.change import Change

DIFFERENCE_CODES = {
    Change.BITWISE: "FUS100",
    Change.REASSOCIATION: "RED200",
    Change.ROUNDING: "FUS100",
    Change.GRID: "QNT300",
    Change.MATH: "FUS100",
    Change.UNKNOWN: "FUS100",
}
GENERAL = {
    "FUS100": "two graphs differ, or several transforms together do more than the plan allows",
    "RED200": "the same, where only the trees of sums differ",
    "QNT300": "the same, where a quantization differs",
}
