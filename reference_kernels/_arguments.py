"""Arguments of torch's operators, as the kernels that stand for them take them."""

from __future__ import annotations

import torch

FLOATS = (torch.float32, torch.bfloat16, torch.float16)


def is_float(*tensors: torch.Tensor) -> bool:
    """Return whether all tensors are of one type that the kernels take."""
    return tensors[0].dtype in FLOATS and all(x.dtype == tensors[0].dtype for x in tensors)


def last_axes(x: torch.Tensor, axes: list[int] | int | None) -> tuple[list[int], list[int]]:
    """Return the axes that are kept and those that are reduced, each in order."""
    axes = [axes] if isinstance(axes, int) else axes
    reduced = sorted({axis % x.dim() for axis in axes}) if axes else list(range(x.dim()))
    return [axis for axis in range(x.dim()) if axis not in reduced], reduced


def as_rows(x: torch.Tensor, axes: list[int] | int | None) -> tuple[torch.Tensor, list[int]]:
    """Return x as a matrix whose rows are reduced, and the shape of the axes that are kept."""
    kept, reduced = last_axes(x, axes)
    shape = [x.shape[axis] for axis in kept]
    count = 1
    for axis in reduced:
        count *= x.shape[axis]
    return x.permute(*kept, *reduced).reshape(-1, count), shape


def reduced_shape(
    x: torch.Tensor, axes: list[int] | int | None, shape: list[int], keepdim: bool
) -> list[int]:
    """Return the shape of a reduction of x."""
    if not keepdim:
        return shape
    _, reduced = last_axes(x, axes)
    return [1 if axis in reduced else size for axis, size in enumerate(x.shape)]
