"""The signature of a call as a text: equal for calls that a library cannot tell apart by shape."""

from __future__ import annotations

from typing import Any

from lastbit.audit.bits import short_format
from lastbit.audit.leaves import mapped
from lastbit.audit.recording import Call

MOST = 60  # characters of any other argument


def key_of(call: Call) -> str:
    """Return operator and arguments: formats, shapes, strides where not row by row, numbers."""
    args = mapped(call.args, _written)
    kwargs = mapped(dict(call.kwargs), _written)
    named = [f"{name}={_joined(value)}" for name, value in kwargs.items()]
    return f"{call.name}({', '.join([*map(_joined, args), *named])})"


def _joined(value: Any) -> str:
    if isinstance(value, dict):
        return "{" + ", ".join(f"{k}: {_joined(v)}" for k, v in value.items()) + "}"
    if isinstance(value, tuple | list):
        return f"[{', '.join(map(_joined, value))}]"
    return str(value)


def _written(leaf: Any) -> str:
    import torch

    if isinstance(leaf, torch.Tensor):
        text = f"{short_format(leaf)}{list(map(int, leaf.shape))}"
        if leaf.layout == torch.strided and not leaf.is_contiguous():
            text += f" strides {list(leaf.stride())}"
        return text
    if isinstance(leaf, int | float | bool | complex | str | type(None) | torch.dtype):
        text = repr(leaf)
        return text.removeprefix("torch.") if isinstance(leaf, torch.dtype) else text[:MOST]
    if isinstance(leaf, torch.device | torch.layout | torch.memory_format):
        return str(leaf).removeprefix("torch.")
    return type(leaf).__name__
