"""Arguments of torch's operators, as the kernels that stand for them take them."""

from __future__ import annotations

from collections.abc import Callable

import torch

NARROW = (torch.bfloat16, torch.float16)
FLOATS = (torch.float32, *NARROW)


def is_float(*tensors: torch.Tensor, kinds: tuple[torch.dtype, ...] = FLOATS) -> bool:
    """Return whether all tensors are of one type, of those that a kernel takes."""
    return tensors[0].dtype in kinds and all(x.dtype == tensors[0].dtype for x in tensors)


def along_axis(
    x: torch.Tensor, axis: int, of_rows: Callable[[torch.Tensor], torch.Tensor]
) -> torch.Tensor:
    """Return x with each of its lines along an axis replaced, given that of rows."""
    moved = x.movedim(axis, -1)
    rows = moved.reshape(-1, moved.shape[-1])
    return of_rows(rows).reshape(moved.shape).movedim(-1, axis)


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


def standing_for_reductions(
    totals: Callable[[torch.Tensor], torch.Tensor], means: Callable[[torch.Tensor], torch.Tensor]
) -> dict[str, Callable[..., torch.Tensor | None]]:
    """Return what stands for aten.sum and aten.mean along axes, given those of rows."""

    def along_axes(
        of_rows: Callable[[torch.Tensor], torch.Tensor],
    ) -> Callable[..., torch.Tensor | None]:
        def reduction(
            x: torch.Tensor,
            axes: list[int] | None,
            keepdim: bool = False,
            *,
            dtype: torch.dtype | None = None,
        ) -> torch.Tensor | None:
            if not is_float(x) or dtype not in (None, x.dtype):
                return None
            rows, shape = as_rows(x, axes)
            return of_rows(rows).reshape(reduced_shape(x, axes, shape, keepdim))

        return reduction

    return {"aten.sum.dim_IntList": along_axes(totals), "aten.mean.dim": along_axes(means)}


def standing_for_softmax(
    of_rows: Callable[[torch.Tensor], torch.Tensor],
) -> Callable[..., torch.Tensor | None]:
    """Return what stands for aten._softmax or aten._log_softmax, given that of rows."""

    def softmax(x: torch.Tensor, axis: int, half_to_float: bool = False) -> torch.Tensor | None:
        if not is_float(x) or half_to_float or not x.dim() or not x.numel():
            return None
        return along_axis(x, axis, of_rows)

    return softmax
