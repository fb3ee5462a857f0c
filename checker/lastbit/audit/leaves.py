"""The tensors and numbers inside the arguments and results of a call, in a fixed order."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any


def mapped(value: Any, change: Callable[[Any], Any]) -> Any:
    """Return nested tuples, lists and dicts with every leaf changed, in the order of `leaves`.

    A named tuple becomes a plain one.
    """
    if isinstance(value, tuple):
        return tuple(mapped(one, change) for one in value)
    if isinstance(value, list):
        return [mapped(one, change) for one in value]
    if isinstance(value, Mapping):
        return {key: mapped(one, change) for key, one in value.items()}
    return change(value)


def leaves(value: Any) -> Iterator[Any]:
    """Yield what stands inside nested tuples, lists and dicts."""
    if isinstance(value, tuple | list):
        for one in value:
            yield from leaves(one)
    elif isinstance(value, Mapping):
        for one in value.values():
            yield from leaves(one)
    else:
        yield value
