"""What an operator that is not known may add up, judged by the shapes of its arguments alone."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Sequence
from typing import Any, TypeAlias

from lastbit.audit.contraction import Arguments, Contraction, Operand

Tensor: TypeAlias = Any  # of torch, which is imported when it is needed


def guesses(
    arguments: Arguments, result: Sequence[int], written: Collection[int] = ()
) -> Iterator[Contraction]:
    """Yield what an operator that is not known may add up, judged by shapes alone.

    Args:
        arguments: of one call, by name.
        result: the shape of its result.
        written: identities of tensors that it writes.
    """
    tensors = {
        name: value
        for name, value in arguments.items()
        if hasattr(value, "is_floating_point")
        and value.is_floating_point()
        and id(value) not in written
        and value.numel() > 1
    }
    shape = tuple(result)
    if len(tensors) == 1:
        ((name, x),) = tensors.items()
        yield from _guessed_sums(name, x, shape)
    elif len(tensors) == 2:
        yield from _guessed_products(tensors, shape)


def _guessed_sums(name: str, x: Tensor, shape: tuple[int, ...]) -> Iterator[Contraction]:
    for axis in reversed(range(x.ndim)):
        kept = [d for d in range(x.ndim) if d != axis]
        left = tuple(x.shape[d] for d in kept)
        if left == shape or (*x.shape[:axis], 1, *x.shape[axis + 1 :]) == shape:
            rows, terms = math.prod(left), x.shape[axis]
            if terms > 1:
                operand = Operand(name, (*kept, axis), (1, rows, terms))
                yield Contraction(operand, None, (1, rows, 1), terms)


def _guessed_products(tensors: Arguments, shape: tuple[int, ...]) -> Iterator[Contraction]:
    (first, x), (second, w) = tensors.items()
    if x.ndim < 2 or w.ndim != 2:
        return
    k, rows = x.shape[-1], math.prod(x.shape[:-1])
    for order in ((0, 1), (1, 0)):
        terms, columns = (w.shape[axis] for axis in order)
        if terms == k and (*x.shape[:-1], columns) == shape:
            left = Operand(first, tuple(range(x.ndim)), (1, rows, k))
            yield Contraction(left, Operand(second, order, (1, k, columns)), (1, rows, columns), k)
