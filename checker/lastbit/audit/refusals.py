"""What operators raise when they refuse a call, in one line."""

from __future__ import annotations

from typing import Final

REFUSALS: Final = (RuntimeError, ValueError, TypeError, IndexError, MemoryError)
"""What operators raise; that one is not implemented for a type is a RuntimeError, and a GPU without
memory too."""

MOST: Final = 160  # characters


def line_of(error: BaseException) -> str:
    """Return the first line of what an error says, or the name of its class."""
    if isinstance(error, MemoryError) or "out of memory" in str(error):
        return "out of memory"
    return next(iter(str(error).strip().splitlines()), type(error).__name__)[:MOST]


def told(error: BaseException) -> str:
    """Return the class of an error, and what it says."""
    name, line = type(error).__name__, line_of(error)
    return name if line == name else f"{name}: {line}"
