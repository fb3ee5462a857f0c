"""Which axes of an operator's tensors count rows of the batch, from two runs of other sizes.

An axis of `c * B` places in a run with B rows, and of `c * P` in one with P rows, counts rows, c
places for each; an integer that is so many times B does too. Everything else has to be equal in the
two runs, or the operator's rows cannot be taken apart, and the reason is given.
Where c is more than 1, row by row (`[B * T]`) or place by place (`[T * B]`) is told by the numbers
of the first row, which both runs share.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from lastbit.audit.bits import plain
from lastbit.audit.case import Layout
from lastbit.audit.leaves import leaves
from lastbit.audit.recording import Call, short_name
from lastbit.audit.taking import Axis, selected

MOST_INTEGERS = 2**16  # of a tensor of integers whose values are held against the other run's
MOST_SAMPLED = 64  # elements along the other axes

NOTHING = "nothing in it counts rows of the batch"
NO_RESULT = "none of its results has an axis that counts rows of the batch"
OTHER_RESULTS = "it gives another number of results for other batch sizes"
ALONE = "it is called in only one of two runs with different batch sizes"
DRAWS = "it draws random numbers, and other rows draw others"
SPARSE = "a tensor among its arguments is {}, whose rows are not taken apart"
UNKNOWN_WRITES = "a launched kernel does not say which arguments count rows"

# Operators that read or write places which integers among their arguments name.
INDEXING = {
    "index", "_unsafe_index", "index_select", "index_add", "index_add_", "index_copy",
    "index_copy_", "index_put", "index_put_", "_index_put_impl_", "_unsafe_index_put", "index_fill",
    "gather", "take", "put", "put_", "scatter", "scatter_", "scatter_add", "scatter_add_",
    "scatter_reduce", "masked_select", "masked_scatter", "masked_scatter_", "embedding_bag",
    "segment_reduce", "_grouped_mm", "_scaled_grouped_mm",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Tensor:
    """What a run tells of a tensor: its shape, and the values of few integers."""

    shape: tuple[int, ...]
    kind: str
    values: bytes | None = None


Leaf = Any  # a Tensor, or the number or text itself


@dataclass(slots=True)
class Seen:
    """What a run tells of a call.

    Attributes:
        arguments: of each leaf.
        results: of each tensor of the results.
        firsts: for tensors with several places a row, by place in `arguments + results`: the
            numbers of the first row, as they are if rows follow each other, and if places do.
    """

    arguments: tuple[Leaf, ...]
    results: tuple[Leaf, ...]
    firsts: dict[int, tuple[Any, Any]] = field(default_factory=dict)


def leaf_of(value: Any) -> Leaf:
    """Return what is kept of a leaf."""
    import torch

    if isinstance(value, torch.Tensor):
        shape, kind = tuple(map(int, value.shape)), str(value.dtype).removeprefix("torch.")
        whole = value.layout == torch.strided and not value.is_floating_point()
        if whole and not value.is_complex() and 0 < value.numel() <= MOST_INTEGERS:
            return Tensor(shape, kind, value.detach().cpu().contiguous().numpy().tobytes())
        return Tensor(shape, kind)
    if isinstance(value, int | bool | str | type(None)):
        return value
    return type(value).__name__


def leaves_before(call: Call) -> list[Leaf]:
    """Return what is kept of the arguments of a call; numbers to compute with are left out."""
    found = []
    for number, leaf in enumerate(leaves_of(call)):
        computed = isinstance(leaf, int | float | complex) and number in call.values
        found.append("a number" if computed else leaf_of(leaf))
    return found


def seen(call: Call, before: Sequence[Leaf], results: Iterable[Any]) -> Seen:
    """Return what is kept of a call.

    Args:
        call: the call.
        before: its leaves before it was made.
        results: its tensors.
    """
    return Seen(tuple(before), tuple(leaf_of(one) for one in results))


def layout(
    name: str, large: Seen, small: Seen | None, sizes: tuple[int, int], drawing: bool
) -> Layout:
    """Return which axes of a call count rows.

    Args:
        name: of the operator.
        large: what the run with more rows tells.
        small: what the run with fewer rows tells; None where it has no such call.
        sizes: the rows of the two.
        drawing: whether it draws random numbers.
    """
    if small is None:
        return Layout(why_whole=ALONE)
    try:
        arguments = _axes(large.arguments, small.arguments, sizes, "argument")
    except _NotFoundError as error:
        return Layout(why_whole=str(error))
    tensors = [isinstance(one, Tensor) for one in large.arguments]
    if not any(axis and is_one for axis, is_one in zip(arguments, tensors, strict=True)):
        return Layout(why_whole=NOTHING, outside=True)
    if drawing:
        return Layout(why_whole=DRAWS)
    if len(large.results) != len(small.results):
        return Layout(why_whole=OTHER_RESULTS)
    results: list[Axis | None] = []
    left: list[str] = []
    for number, (a, b) in enumerate(zip(large.results, small.results, strict=True)):
        try:
            results.append(_axis(a, b, sizes, f"result {number}"))
        except _NotFoundError as error:  # a kernel's workspace, say
            results.append(None)
            left.append(str(error))
    if not any(results):
        if left:
            return Layout(why_whole=left[0])
        return Layout(arguments, tuple(results), why_whole=NO_RESULT, outside=True)
    return Layout(arguments, tuple(results), left_out=tuple(left))


def names_rows(name: str, large: Seen, arguments: Sequence[Axis | None]) -> bool:
    """Return whether integers of an operator may name rows of the batch."""
    kinds = {
        one.kind
        for one, axis in zip(large.arguments, arguments, strict=False)
        if isinstance(one, Tensor) and axis is not None
    }
    whole = {kind for kind in kinds if kind.startswith(("int", "uint", "bool"))}
    base = short_name(name)
    return bool(whole and (base in INDEXING) and kinds - whole)


class _NotFoundError(Exception):
    """What keeps the rows of an operator from being taken apart."""


def _axes(
    large: Sequence[Leaf], small: Sequence[Leaf], sizes: tuple[int, int], what: str
) -> tuple[Axis | None, ...]:
    if len(large) != len(small):
        raise _NotFoundError(f"it has {len(large)} and {len(small)} {what}s in two runs")
    return tuple(
        _axis(a, b, sizes, f"{what} {number}")
        for number, (a, b) in enumerate(zip(large, small, strict=True))
    )


def _axis(large: Leaf, small: Leaf, sizes: tuple[int, int], what: str) -> Axis | None:
    if isinstance(large, Tensor) and isinstance(small, Tensor):
        return _axis_of_tensor(large, small, sizes, what)
    if large == small:
        return None
    whole = type(large) is int and type(small) is int
    each, rest = divmod(large, sizes[0]) if whole else (0, 1)
    if rest or each * sizes[1] != small or each < 1:
        rows = f"{sizes[0]:,} rows and {small!r} for {sizes[1]:,}"
        raise _NotFoundError(f"{what} is {large!r} for {rows}")
    return Axis(0, each)


def _axis_of_tensor(large: Tensor, small: Tensor, sizes: tuple[int, int], what: str) -> Axis | None:
    if len(large.shape) != len(small.shape) or large.kind != small.kind:
        raise _NotFoundError(f"{what} has other axes or another format for other batch sizes")
    pairs = list(zip(large.shape, small.shape, strict=True))
    other = [number for number, (a, b) in enumerate(pairs) if a != b]
    if not other:
        if large.values != small.values and what.startswith("argument"):
            raise _NotFoundError(f"{what}, of integers, depends on the number of rows")
        return None
    if len(other) > 1:
        raise _NotFoundError(f"{len(other)} axes of {what} depend on the number of rows")
    a, b = pairs[other[0]]
    each, rest = divmod(a, sizes[0])
    if rest or each * sizes[1] != b or each < 1:
        rows = f"{a:,} places for {sizes[0]:,} rows and {b:,} for {sizes[1]:,}"
        raise _NotFoundError(f"an axis of {what} has {rows}")
    return Axis(other[0], each)


def first_rows(found: Layout, values: Sequence[Any], size: int) -> dict[int, tuple[Any, Any]]:
    """Return samples of the first row of tensors with several places a row, read in both ways.

    Args:
        found: which axes count rows.
        values: leaves of the arguments, then the results.
        size: the rows.
    """
    axes = (*found.arguments, *found.results)
    samples: dict[int, tuple[Any, Any]] = {}
    for number, (axis, value) in enumerate(zip(axes, values, strict=True)):
        if axis is not None and axis.each > 1 and hasattr(value, "movedim"):
            rows, places = (
                _sample(selected(value, replace(axis, inner=inner), [0], size), axis.axis)
                for inner in (False, True)
            )
            samples[number] = (rows, places)
    return samples


def _sample(tensor: Any, axis: int) -> Any:
    moved = tensor.movedim(axis, 0)
    return moved.reshape(moved.shape[0], -1)[:, :MOST_SAMPLED].clone()


def with_order(
    found: Layout, large: dict[int, tuple[Any, Any]], small: dict[int, tuple[Any, Any]]
) -> Layout:
    """Return a layout that says where the rows of the batch run fastest along an axis."""
    inner = set()
    for number, (rows, places) in large.items():
        other = small.get(number)
        if other is not None and _equal(places, other[1]) > _equal(rows, other[0]):
            inner.add(number)
    axes = [
        replace(axis, inner=True) if axis is not None and number in inner else axis
        for number, axis in enumerate((*found.arguments, *found.results))
    ]
    count = len(found.arguments)
    return replace(found, arguments=tuple(axes[:count]), results=tuple(axes[count:]))


def _equal(a: Any, b: Any) -> int:
    return int((plain(a) == plain(b)).sum()) if a.shape == b.shape else 0


def leaves_of(call: Call) -> list[Any]:
    """Return the leaves of the arguments of a call."""
    return list(leaves((call.args, dict(call.kwargs))))
