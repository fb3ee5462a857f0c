"""Refuse what does not fit into memory, before and while it is computed."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager

from lastbit.errors import InputError, Problem


@contextmanager
def room(what: str, needed: int = 0) -> Iterator[None]:
    """Turn a lack of memory into an error in words.

    Args:
        what: what is computed, for the message.
        needed: the bytes that it takes at least; refused at once where the machine has fewer.

    Raises:
        InputError: there is not enough memory.
    """
    if needed > installed():
        raise _error(what)
    try:
        yield
    except MemoryError:
        raise _error(what) from None


def installed() -> int:
    """Return the bytes of memory of this machine; very many where that is not known."""
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, OSError, ValueError):
        return 1 << 62


def _error(what: str) -> InputError:
    return InputError([Problem(f"{what} needs more memory than there is", "Give smaller sizes.")])
