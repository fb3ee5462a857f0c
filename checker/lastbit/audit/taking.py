"""Some rows of a tensor, in memory of their own that is laid out as for a batch of that size.

A kernel may be chosen by strides and by the alignment of the first element, so both are kept: a
batch axis inside others shortens their strides, one outside leaves them alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

Rows: TypeAlias = "int | Sequence[int]"

ALIGNMENT = {"cpu": 64}  # bytes to which torch aligns what it allocates
DEVICE_ALIGNMENT = 512


@dataclass(frozen=True, slots=True)
class Axis:
    """An axis that counts rows of the batch.

    Attributes:
        axis: its number.
        each: how many of its places belong to one row of the batch.
        inner: whether the rows of the batch run fastest along it (`[T * B]`, not `[B * T]`).
    """

    axis: int
    each: int = 1
    inner: bool = False

    def places(self, rows: Rows, size: int) -> list[int]:
        """Return the places of some rows in an axis of so many rows; a number: the first ones."""
        wanted = range(rows) if isinstance(rows, int) else rows
        if self.inner:
            return [j * size + row for j in range(self.each) for row in wanted]
        return [row * self.each + j for row in wanted for j in range(self.each)]


def selected(tensor: Any, axis: Axis, rows: Rows, size: int) -> Any:
    """Return some rows of a tensor of `size` rows, in any layout."""
    import torch

    if isinstance(rows, int) and (not axis.inner or rows == size):
        return tensor.narrow(axis.axis, 0, rows * axis.each)
    places = torch.tensor(axis.places(rows, size), device=tensor.device)
    if tensor.is_floating_point() and tensor.element_size() == 1:  # few operators know these
        return tensor.view(torch.uint8).index_select(axis.axis, places).view(tensor.dtype)
    return tensor.index_select(axis.axis, places)


def taken(tensor: Any, axis: Axis, rows: Rows, size: int) -> Any:
    """Return a copy of some rows of a tensor, laid out as a batch of that many would be."""
    part = selected(tensor, axis, rows, size)
    strides = _strides(tensor, axis.axis, part.shape[axis.axis])
    return _laid_out(part, strides, tensor)


def copied(tensor: Any) -> Any:
    """Return a copy of a tensor with its strides and alignment."""
    import torch

    if tensor.layout != torch.strided:
        return tensor.clone()
    return _laid_out(tensor, tuple(tensor.stride()), tensor)


def _strides(tensor: Any, axis: int, length: int) -> tuple[int, ...] | None:
    """Return the strides of a tensor whose batch axis has another length; None: as they come."""
    old, step = tensor.shape[axis], tensor.stride(axis)
    found = []
    for number, (size, stride) in enumerate(zip(tensor.shape, tensor.stride(), strict=True)):
        if number == axis or step == 0 or size == 1 or stride <= step:
            found.append(stride)
        elif stride >= step * old and stride % old == 0:
            found.append(stride // old * length)
        else:
            return None
    return tuple(found)


def _laid_out(values: Any, strides: tuple[int, ...] | None, like: Any) -> Any:
    """Return a copy of values with these strides, aligned as another tensor is."""
    import torch

    if strides is None or not _apart(values.shape, strides):
        return values.clone(memory_format=torch.contiguous_format)
    block = ALIGNMENT.get(like.device.type, DEVICE_ALIGNMENT)
    offset = like.data_ptr() % block // like.element_size() if values.numel() else 0
    pairs = list(zip(values.shape, strides, strict=True))
    room = 1 + sum((size - 1) * stride for size, stride in pairs) if values.numel() else 0
    memory = torch.empty(offset + room, dtype=values.dtype, device=values.device)
    result = memory.as_strided(values.shape, strides, offset)
    target, source = result, values
    for number, (size, stride) in enumerate(pairs):
        if stride == 0 and size > 1:  # one element stands for all
            target, source = target.narrow(number, 0, 1), source.narrow(number, 0, 1)
    target.copy_(source)
    return result


def _apart(shape: Sequence[int], strides: Sequence[int]) -> bool:
    """Return whether no two elements share memory, but for axes of stride 0."""
    reach = 0
    for stride, size in sorted(zip(strides, shape, strict=True)):
        if stride == 0 or size <= 1:
            continue
        if stride <= reach:
            return False
        reach += (size - 1) * stride
    return True
