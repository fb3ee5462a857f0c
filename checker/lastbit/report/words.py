"""Figures in words, for reports that people read."""

from __future__ import annotations

from lastbit.cost.units import UNITS, unit_of

FLOPS = ("FLOP", "kFLOP", "MFLOP", "GFLOP", "TFLOP", "PFLOP")


def number(value: float) -> str:
    """Write a figure: whole numbers in full with separators, others with three digits."""
    if abs(value) < 2**63 and value == int(value):
        return f"{int(value):,}"
    return f"{value:,.0f}" if 1000 <= abs(value) < 2**63 else f"{value:.3g}"


def percent(share: float) -> str:
    """Write a share as a percentage of three digits; what is not all never reads as 100 %."""
    text = f"{100 * share:.3g}"
    if text == "100" and share < 1:
        text = "> 99.9"
    return f"{text} %"


def count(total: int) -> str:
    """Write a count: a large power of two as such, any other with separators."""
    if total >= 1024 and total & (total - 1) == 0:
        return f"2^{total.bit_length() - 1}"
    return f"{total:,}"


def plural(total: int, noun: str) -> str:
    """Write a count and its noun; nothing counts as `no`."""
    return f"{total or 'no'} {noun}{'' if total == 1 else 's'}"


def size_pair(sizes: tuple[int | None, int | None]) -> str:
    """Write two byte counts in the unit of the greater one.

    Equal ones are written once, and one that is not known as `?`.
    """
    scale = unit_of(max(size or 0 for size in sizes))
    before, after = ("?" if size is None else f"{size / 1024**scale:.6g}" for size in sizes)
    return f"{pair(before, after)} {UNITS[scale]}"


def pair(before: str, after: str) -> str:
    """Write two figures, once if they are equal."""
    return before if before == after else f"{before} -> {after}"


def operations(counts: tuple[int, int]) -> str:
    """Write two numbers of operations in the decimal unit of the greater one; equal ones once."""
    scale = min((len(str(max(counts))) - 1) // 3, len(FLOPS) - 1)
    before, after = (f"{count / 1000**scale:.4g}" for count in counts)
    return f"{pair(before, after)} {FLOPS[scale]}"
