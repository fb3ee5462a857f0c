"""What a program sets in torch for the whole process, put back after each run of it.

Otherwise one run would decide how the next one computes, and the audit after it.
"""

from __future__ import annotations

import contextlib
import warnings
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any


def _all() -> dict[str, tuple[Callable[[], Any], Callable[[Any], Any]]]:
    """Return how settings that change results are read and written, by name."""
    import torch

    def deterministic() -> tuple[bool, bool]:
        warned = torch.is_deterministic_algorithms_warn_only_enabled()
        return torch.are_deterministic_algorithms_enabled(), warned

    def set_deterministic(value: tuple[bool, bool]) -> None:
        torch.use_deterministic_algorithms(value[0], warn_only=value[1])

    found: dict[str, tuple[Callable[[], Any], Callable[[Any], Any]]] = {
        "the number of threads": (torch.get_num_threads, torch.set_num_threads),
        "the default dtype": (torch.get_default_dtype, torch.set_default_dtype),
        "the default device": (
            torch.get_default_device,
            lambda value: torch.set_default_device(None if value.type == "cpu" else value),
        ),
        "deterministic algorithms": (deterministic, set_deterministic),
        "the precision of matmuls": (
            torch.get_float32_matmul_precision, torch.set_float32_matmul_precision,
        ),
    }  # fmt: skip
    flags = (
        (torch.backends.cuda.matmul, "allow_tf32"),
        (torch.backends.cudnn, "allow_tf32"),
        (torch.backends.cudnn, "benchmark"),
        (torch.backends.cudnn, "deterministic"),
    )
    for owner, name in flags:
        of = getattr(owner, "__name__", type(owner).__name__).removeprefix("torch.backends.")
        found[f"{of}.{name}"] = partial(getattr, owner, name), partial(setattr, owner, name)
    return found


class Settings:
    """Puts settings back, and remembers which were changed.

    Attributes:
        changed: their names, in the order in which they were first changed.
    """

    def __init__(self) -> None:
        self.changed: dict[str, None] = {}

    @contextlib.contextmanager
    def kept(self) -> Iterator[None]:
        """Put back what is changed inside."""
        settings = _all()
        before = {name: _read(read) for name, (read, _) in settings.items()}
        try:
            yield
        finally:
            for name, (read, write) in settings.items():
                if _read(read) != before[name]:
                    self.changed[name] = None
                    with warnings.catch_warnings(), contextlib.suppress(RuntimeError):
                        warnings.simplefilter("ignore")  # of names that torch has renamed
                        write(before[name])


def _read(read: Callable[[], Any]) -> Any:
    """Return a setting; None where torch refuses, as for one that was set by another name."""
    try:
        return read()
    except RuntimeError:
        return None
