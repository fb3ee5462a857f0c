"""The axes of a target's inputs that count rows: as the user names them, or as sizes suggest."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, TypeAlias

from lastbit.audit.leaves import leaves
from lastbit.audit.taking import Axis
from lastbit.errors import InputError, Problem
from lastbit.importers.torch_calls import Target

PROBES = (2, 3)  # small batches that show whether an axis counts rows

Shapes: TypeAlias = list[tuple[int, ...]]

_NAMED = re.compile(r"(?:([A-Za-z_]\w*)=)?(-?\d{1,3})")


def parameter_names(target: Target) -> Callable[[int], str]:
    """Return what names an input by the number of its leaf."""
    call = getattr(target.call, "forward", target.call)
    try:
        names = list(inspect.signature(call).parameters)
    except (TypeError, ValueError):
        names = []
    found = []
    for number, one in enumerate(target.args):
        name = names[number] if number < len(names) else str(number)
        found += [f"`{name}`"] * sum(1 for _ in leaves(one))
    return lambda number: found[number]


def _tensors(target: Target) -> dict[int, Any]:
    import torch

    pairs = enumerate(leaves(target.args))
    return {n: one for n, one in pairs if isinstance(one, torch.Tensor) and one.dim()}


def named_axes(target: Target, named: Sequence[str]) -> dict[int, Axis]:
    """Return the axes that the user names, by number of the input.

    Raises:
        InputError: there is no such axis, or they hold different numbers of rows.
    """
    tensors, name_of = _tensors(target), parameter_names(target)
    found: dict[int, Axis] = {}
    for text in named:
        match = _NAMED.fullmatch(text.strip())
        if match is None:
            raise InputError([Problem(f"{text!r} names no axis", "Write NAME=AXIS, as x=0.")])
        name, axis = match.group(1), int(match.group(2))
        chosen = {n: t for n, t in tensors.items() if name is None or name_of(n) == f"`{name}`"}
        chosen = {n: t for n, t in chosen.items() if -t.dim() <= axis < t.dim()}
        if name is None and chosen:  # of all inputs with as many rows as the first
            first = next(iter(chosen.values())).shape[axis]
            chosen = {n: t for n, t in chosen.items() if t.shape[axis] == first}
        if not chosen:
            listed = ", ".join(f"{name_of(n)} with {t.dim()} axes" for n, t in tensors.items())
            message = f"{text!r} names no axis of an input of {target.label}"
            raise InputError([Problem(message, f"It has {listed or 'no tensors'}.")])
        found |= {n: Axis(axis % t.dim()) for n, t in chosen.items()}
    rows_of_inputs(target, found)
    return found


def rows_of_inputs(target: Target, axes: Mapping[int, Axis]) -> int:
    """Return how many rows the inputs have.

    Raises:
        InputError: they have different numbers.
    """
    tensors = _tensors(target)
    sizes = {tensors[n].shape[one.axis] for n, one in axes.items()}
    if len(sizes) != 1 or 0 in sizes:
        listed = ", ".join(map(str, sorted(sizes)))
        message = f"the axes that count rows of {target.label} have {listed} places"
        raise InputError([Problem(message, "Give all of them the same number of rows.")])
    return int(sizes.pop())


def candidate_axes(target: Target) -> Iterator[dict[int, Axis]]:
    """Yield axes that may count rows, the likely ones first."""
    tensors = _tensors(target)
    if not tensors:
        return
    depth = max(t.dim() for t in tensors.values())
    for axis in range(min(depth, 2)):
        deep = {n: t for n, t in tensors.items() if t.dim() > axis}
        for first in list(deep)[:4]:
            size = deep[first].shape[axis]
            same = {n: Axis(axis) for n, t in deep.items() if t.shape[axis] == size}
            yield same
            if len(same) > 1:
                yield {first: Axis(axis)}


def axes_by_shape(
    small: Shapes, large: Shapes, sizes: tuple[int, int] = PROBES
) -> list[Axis | None]:
    """Return for each tensor the axis that counts rows, from its shapes for two numbers of rows.

    One that grows in another way has none.
    """
    found: list[Axis | None] = []
    for a, b in zip(small, large, strict=False):
        other = [n for n, (x, y) in enumerate(zip(a, b, strict=False)) if x != y]
        axis = None
        if len(a) == len(b) and len(other) == 1:
            each, rest = divmod(a[other[0]], sizes[0])
            if not rest and each and each * sizes[1] == b[other[0]]:
                axis = Axis(other[0], each)
        found.append(axis)
    return found
