"""The number of threads with which torch computes on the processor."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator


def number_of_threads(device: str) -> int:
    """Return with how many threads torch computes on a device of the processor; elsewhere 1."""
    import torch

    return int(torch.get_num_threads()) if device == "cpu" else 1


@contextlib.contextmanager
def with_threads(count: int) -> Iterator[None]:
    """Compute with so many threads for a while."""
    import torch

    before = torch.get_num_threads()
    torch.set_num_threads(count)
    try:
        yield
    finally:
        torch.set_num_threads(before)
