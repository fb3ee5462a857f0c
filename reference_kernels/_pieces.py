"""The number of pieces in which a kernel adds, fixed or by the number of rows."""

from __future__ import annotations

from lastbit.kernels import Case


def pieces(n: int, rows: int, by_rows: bool, at: int = 4) -> int:
    """Return the number of pieces: n, or n at so many rows, fewer the more rows there are."""
    return max(1, at * n // max(rows, 1)) if by_rows else n


def pieces_text(case: Case, at: int = 4) -> str:
    """Return that number, as a schedule says it."""
    return f"max(1, {at * case['n']} // M)" if case["by_rows"] else str(case["n"])


def is_fixed(case: Case) -> bool:
    """Return whether the number does not depend on that of rows."""
    return not case["by_rows"]


def size_of(name: str, size: int, count: int, noun: str) -> int:
    """Return the size of each of so many equal pieces; refuse a size that they do not divide."""
    if size % count:
        raise ValueError(f"{name} is {size}, which {count} {noun} do not divide.")
    return size // count
