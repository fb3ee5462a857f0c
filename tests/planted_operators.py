"""Operators whose summation is known, as recorded cases."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from typing import Any

import torch

from lastbit.audit.case import Case, Layout
from lastbit.audit.leaves import leaves
from lastbit.audit.taking import Axis

ROWS = Axis(0)
TERMS = 48  # of the sums that are planted


def planted(
    function: Callable[..., Any],
    args: Sequence[Any],
    axes: Sequence[Axis | None] = (ROWS,),
    results: Sequence[Axis | None] = (ROWS,),
    name: str = "planted.default",
    kwargs: dict[str, Any] | None = None,
) -> Case:
    """Return a case of an operator.

    Args:
        function: the operator.
        args: its arguments.
        axes: of the first arguments, which are tensors; others have no rows.
        results: the axes of its results.
        name: of the operator.
        kwargs: its named arguments.
    """
    count = sum(1 for _ in leaves((tuple(args), kwargs or {})))
    layout = Layout((*axes, *[None] * (count - len(axes))), tuple(results))
    sizes = [x.shape[axis.axis] for x, axis in zip(args, axes, strict=False) if axis is not None]
    size = sizes[0] if sizes else 1
    return Case(name, name, 0, "", None, size, "cpu", function, tuple(args), kwargs or {}, layout)


class Standing:
    """A function that stands for an operator of torch, with its arguments."""

    def __init__(self, operator: Any, function: Callable[..., Any]) -> None:
        self._schema, self.name, self.function = operator._schema, str(operator), function

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Return what the function returns."""
        return self.function(*args, **kwargs)


def standing(
    operator: Any,
    function: Callable[..., Any],
    args: Sequence[Any],
    kwargs: dict[str, Any] | None = None,
) -> Case:
    """Return a case of a function that stands for an operator, its rows in the first argument."""
    return planted(Standing(operator, function), args, name=str(operator), kwargs=kwargs)


def normal(*shape: int, seed: int = 0) -> torch.Tensor:
    """Return normal numbers."""
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


def added(columns: Sequence[torch.Tensor]) -> torch.Tensor:
    """Return columns added from left to right."""
    total = columns[0] * 1
    for column in columns[1:]:
        total = total + column
    return total


def in_pieces(x: torch.Tensor, pieces: int) -> torch.Tensor:
    """Return the sums of rows, each added in contiguous pieces."""
    length = -(-x.shape[-1] // pieces)
    columns = x.unbind(-1)
    return added([added(columns[i : i + length]) for i in range(0, len(columns), length)])


def split_by_batch(x: torch.Tensor) -> torch.Tensor:
    """Return the sums of rows; the number of pieces follows the batch, up to four."""
    return in_pieces(x, min(x.shape[0], 4))


def split_by_threads(x: torch.Tensor) -> torch.Tensor:
    """Return the sums of rows; the number of pieces is that of the threads."""
    return in_pieces(x, torch.get_num_threads())


def split_by_place(x: torch.Tensor) -> torch.Tensor:
    """Return the sums of rows; the first is added from left to right, all others in two pieces."""
    return torch.cat([in_pieces(x[:1], 1), in_pieces(x[1:], 2)])


def product_split_by_batch(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
    """Return x @ w; the number of pieces follows the batch, up to four."""
    terms = x[:, None, :] * w.t()[None]
    return in_pieces(terms, min(x.shape[0], 4))


class InAnyOrder:
    """The sums of rows, each time in another order, as atomic additions give them."""

    def __init__(self, seed: int = 0) -> None:
        self.random = random.Random(seed)

    def __call__(self, x: torch.Tensor) -> torch.Tensor:
        """Return the sums."""
        columns = list(x.unbind(-1))
        self.random.shuffle(columns)
        return added(columns)
