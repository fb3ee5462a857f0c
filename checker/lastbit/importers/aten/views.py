"""Operators that move values and compute nothing, and casts."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from lastbit.importers.aten.operator import NotCoveredError, Operator, Table, by_float, checked
from lastbit.importers.expressions import (
    broadcast_to,
    literal,
    over,
    plain,
    reshaped,
    sliced,
    times,
    transposed,
)
from lastbit.importers.imported import Size, Value, is_float
from lastbit.importers.integers import wrapped
from lastbit.importers.writer import Step

SATURATING = ("e4m3fn", "e5m2")  # formats whose casts saturate, from torch 2.13 on

Sized = int | Size


def reshape(step: Step, x: Value, *_: object, **__: object) -> None:
    """State the same elements in the shape that the file states."""
    if step.out.dtype != x.dtype:
        raise NotCoveredError("the bits are read as another type")
    step.give(reshaped(x, step.out.dims))


def same(step: Step, x: Value, *_: object, **__: object) -> None:
    """State that the result is the value."""
    step.same(x)


def expand(step: Step, x: Value, *_: object, **__: object) -> None:
    """State the value repeated to the shape that the file states."""
    step.give(broadcast_to(x.name, step.out.dims) if step.out.dims != x.dims else x.name)


def permute(step: Step, x: Value, dims: Sequence[int]) -> None:
    """State the axes in another order."""
    step.give(transposed(x, [x.axis(checked(dim, int, "an axis")) for dim in dims]))


def transpose(step: Step, x: Value, dim0: int, dim1: int) -> None:
    """State two axes exchanged."""
    order = list(range(x.rank))
    a, b = x.axis(dim0), x.axis(dim1)
    if x.rank:
        order[a], order[b] = b, a
    step.give(transposed(x, order))


def turned(step: Step, x: Value) -> None:
    """State the transpose of a matrix."""
    step.give(transposed(x, (1, 0)) if x.rank == 2 else x.name)


def _bound(end: Sized | None, size: str, default: str) -> str:
    """Return an end of a slice, counted from the first element and inside the axis."""
    if end is None:
        return default
    if isinstance(end, Size):
        return plain(end)
    if end < 0:
        return plain(f"max(0, {size} - {-end})")
    if size.isdigit():
        return str(min(end, int(size)))
    return size if end >= sys.maxsize else str(end)


def _ends(x: Value, dim: int, start: Sized | None, end: Sized | None) -> tuple[int, str, str, str]:
    """Return the axis of a slice, its size, and the two ends."""
    axis = x.axis(dim)
    size = x.dims[axis]
    return axis, size, _bound(start, size, "0"), _bound(end, size, size)


def cut(
    step: Step,
    x: Value,
    dim: int = 0,
    start: Sized | None = None,
    end: Sized | None = None,
    step_: int = 1,
) -> None:
    """State a slice along one axis."""
    axis, size, low, high = _ends(x, dim, start, end)
    step.give(x.name if (low, high, step_) == ("0", size, 1) else sliced(x, axis, low, high, step_))


def slice_scatter(
    step: Step,
    x: Value,
    src: Value,
    dim: int = 0,
    start: Sized | None = None,
    end: Sized | None = None,
    step_: int = 1,
) -> None:
    """State x with other values in place of a slice along one axis."""
    axis, size, low, high = _ends(x, dim, start, end)
    if step_ != 1:
        raise NotCoveredError(f"the slice takes one element of {step_}")
    parts = [_as(src, step.out.dtype)]
    if low != "0":
        parts.insert(0, sliced(x, axis, "0", low))
    if high != size:
        parts.append(sliced(x, axis, high, size))
    step.give(f"concat({', '.join(parts)}, axis={axis})" if parts[1:] else parts[0])


def narrow(step: Step, x: Value, dim: int, start: Sized, length: Sized) -> None:
    """State `length` elements along one axis."""
    cut(step, x, dim, start, Size(plain(f"({start}) + ({length})")))


def select(step: Step, x: Value, dim: int, index: Sized) -> None:
    """State one element along an axis, which goes."""
    axis = x.axis(dim)
    low = _bound(index, x.dims[axis], "0")
    text = sliced(x, axis, low, plain(f"({low}) + 1"))
    step.give(reshaped(text, step.out.dims))


def _pieces(step: Step, x: Value, axis: int, start: str, sizes: Sequence[str]) -> None:
    for number, size in enumerate(sizes):
        stop = plain(f"({start}) + ({size})")
        step.give(sliced(x, axis, start, stop), number=number)
        start = stop


def split(step: Step, x: Value, *_: object, dim: int = 0, **__: object) -> None:
    """State contiguous pieces along an axis, of the sizes that the file states."""
    axis = x.axis(dim)
    _pieces(step, x, axis, "0", [out.dims[axis] for out in step.outs])


def split_at(step: Step, x: Value, split_size: object, dim: int = 0) -> None:
    """State pieces of one size, or of given sizes."""
    split(step, x, dim=dim)


def unbind(step: Step, x: Value, dim: int = 0) -> None:
    """State each element along an axis, which goes."""
    axis = x.axis(dim)
    for number, out in enumerate(step.outs):
        text = sliced(x, axis, str(number), str(number + 1))
        step.give(reshaped(text, out.dims), number=number)


def cat(step: Step, tensors: Sequence[Value], dim: int = 0) -> None:
    """State values one after the other along an axis; an empty vector counts as nothing."""
    parts = [x for x in tensors if x.dims != ("0",)] or list(tensors)
    axis = dim % max(len(step.out.dims), 1)
    if len(parts) == 1:
        step.give(parts[0].name)
        return
    step.give(f"concat({', '.join(_as(x, step.out.dtype) for x in parts)}, axis={axis})")


def _as(x: Value, dtype: str) -> str:
    mixed = x.dtype != dtype and is_float(dtype)
    return f"round({by_float(x, dtype)}, {dtype})" if mixed else x.name


def stack(step: Step, tensors: Sequence[Value], dim: int = 0) -> None:
    """State values along a new axis."""
    axis = dim % len(step.out.dims)
    parts = []
    for x in tensors:
        dims = (*x.dims[:axis], "1", *x.dims[axis:])
        parts.append(reshaped(_as(x, step.out.dtype), dims))
    joined = f"concat({', '.join(parts)}, axis={axis})"
    step.give(joined if len(parts) > 1 else parts[0])


def repeat(step: Step, x: Value, repeats: Sequence[Sized]) -> None:
    """State the value side by side, so many times along each axis."""
    dims = ("1",) * (len(repeats) - x.rank) + x.dims
    apart = [word for dim in dims for word in ("1", dim)]
    many = [word for n, dim in zip(repeats, dims, strict=True) for word in (str(n), dim)]
    step.give(reshaped(broadcast_to(reshaped(x.name, apart), many), step.out.dims))


def repeat_interleave(
    step: Step, x: Value, repeats: object, dim: int | None = None, **_: object
) -> None:
    """State every element so many times along an axis."""
    if dim is None or isinstance(repeats, Value):
        raise NotCoveredError("the number of repeats is a tensor, or no axis is given")
    axis = x.axis(dim)
    apart = (*x.dims[: axis + 1], "1", *x.dims[axis + 1 :])
    many = (*x.dims[: axis + 1], str(repeats), *x.dims[axis + 1 :])
    step.give(reshaped(broadcast_to(reshaped(x.name, apart), many), step.out.dims))


def flip(step: Step, x: Value, dims: Sequence[int]) -> None:
    """State axes in reverse."""
    axes = {x.axis(dim) for dim in dims}
    words = ["::-1" if i in axes else ":" for i in range(x.rank)]
    step.give(f"{x.name}[{', '.join(words)}]")


def roll(step: Step, x: Value, shifts: Sequence[Sized], dims: Sequence[int] = ()) -> None:
    """State axes turned around by some elements; without axes all elements as one."""
    turned_by = [checked(shift, int, "a shift") for shift in shifts]
    text, whole = x, x
    if not dims:
        length = (times(x.dims),)
        text = whole = step.part("flat", reshaped(x, length), x.dtype, length)
        dims = (0,)
    for number, (shift, dim) in enumerate(zip(turned_by, dims, strict=True)):
        axis = whole.axis(dim)
        size = whole.dims[axis]
        if not size.isdigit():
            raise NotCoveredError("an axis that is turned around has no fixed size")
        first = -shift % max(int(size), 1)
        if first:
            parts = (sliced(text, axis, str(first), size), sliced(text, axis, "0", str(first)))
            joined = f"concat({', '.join(parts)}, axis={axis})"
            text = step.part(f"turned_{number}", joined, x.dtype, whole.dims)
    step.give(reshaped(text, step.out.dims) if whole is not x else text.name)


def pad(
    step: Step, x: Value, pad: Sequence[Sized], mode: str = "constant", value: float | None = None
) -> None:
    """State the value inside a frame of one number."""
    if mode != "constant" or any(isinstance(n, Size) or n < 0 for n in pad):
        raise NotCoveredError("the frame is not of one number, or has no fixed size")
    dims, text = list(x.dims), x.name
    number = literal(value or 0, x.dtype)
    for i in range(len(pad) // 2):
        axis = x.rank - 1 - i
        parts = []
        for n in pad[2 * i : 2 * i + 2]:
            edge = broadcast_to(number, [*dims[:axis], str(n), *dims[axis + 1 :]])
            parts.append(edge if n else "")
        before, after = parts
        joined = [part for part in (before, text, after) if part]
        if len(joined) > 1:
            text = f"concat({', '.join(joined)}, axis={axis})"
        dims[axis] = plain(f"{dims[axis]} + {pad[2 * i]} + {pad[2 * i + 1]}")
    step.give(text)


def convert(step: Step, x: Value, *_: object, **__: object) -> None:
    """State a cast to the type that the file states: one rounding, and none to a wider format."""
    to = step.out.dtype
    if to == x.dtype:
        step.same(x)
    elif is_float(to):
        step.give(by_float(x, to), saturates=to in SATURATING and step.writer.saturates)
    elif to == "bool":
        step.give(f"1 - ({x.name} == 0)")
    elif is_float(x.dtype):  # -0.5 gives 0, not -0.0; what does not fit gives any number
        step.give(f"opaque('to_{to}', {x.name})")
    elif fits := wrapped(x.name, to, step.writer.limits(x)):
        step.give(fits)
    else:
        raise NotCoveredError(f"{x.dtype} may not fit into {to}")


def copied(step: Step, x: Value, src: Value, non_blocking: bool = False) -> None:
    """State a value of the same shape in the place of another."""
    if src.dims != step.out.dims:
        raise NotCoveredError("what is copied has another shape")
    convert(step, src)


def kept(step: Step, x: Value, p: float = 0.5, train: bool = False) -> None:
    """State dropout in evaluation: the value itself."""
    if train and p:
        raise NotCoveredError("it drops elements at random")
    step.same(x)


def unfolded(step: Step, x: Value, dimension: int, size: int, step_: int) -> None:
    """State windows along an axis as a new last axis."""
    if size != step_:
        raise NotCoveredError("the windows overlap")
    axis = x.axis(dimension)
    count = over(x.dims[axis], str(size))
    whole = plain(f"({count}) * {size}")
    apart = (*x.dims[:axis], count, str(size), *x.dims[axis + 1 :])
    order = [i for i in range(x.rank + 1) if i != axis + 1] + [axis + 1]
    step.give(transposed(reshaped(sliced(x, axis, "0", whole), apart), order))


_MOVES = "moves values"
_CASTS = "a cast: one rounding; from floats to integers opaque, by element"

VIEWS: Table = {
    **{
        f"aten.{name}": Operator(reshape, _MOVES)
        for name in [
            "view",
            "reshape",
            "_unsafe_view",
            "unsqueeze",
            "squeeze",
            "flatten",
            "unflatten",
            "view_copy",
            "_reshape_alias",
            "reshape_copy",
            "squeeze_copy",
            "unsqueeze_copy",
        ]
    },
    **{
        f"aten.{name}": Operator(same, "the value itself")
        for name in [
            "contiguous",
            "clone",
            "alias",
            "detach",
            "detach_",
            "lift_fresh_copy",
            "lift_fresh",
            "positive",
            "conj",
            "resolve_conj",
            "alias_copy",
        ]
    },
    **{f"aten.{name}": Operator(expand, _MOVES) for name in ("expand", "expand_copy")},
    **{f"aten.{name}": Operator(permute, _MOVES) for name in ("permute", "permute_copy")},
    "aten.dropout": Operator(kept, "the value itself in evaluation; else opaque"),
    "aten.feature_dropout": Operator(kept, "the value itself in evaluation; else opaque"),
    "aten.expand_as": Operator(expand, _MOVES),
    "aten.broadcast_to": Operator(expand, _MOVES),
    "aten.view_as": Operator(reshape, _MOVES),
    "aten.reshape_as": Operator(reshape, _MOVES),
    "aten.transpose": Operator(transpose, _MOVES),
    "aten.swapaxes": Operator(transpose, _MOVES),
    "aten.t": Operator(turned, _MOVES),
    "aten.numpy_T": Operator(turned, _MOVES),
    "aten.slice": Operator(cut, _MOVES),
    "aten.slice_copy": Operator(cut, _MOVES),
    "aten.slice_scatter": Operator(slice_scatter, _MOVES),
    "aten.roll": Operator(roll, _MOVES),
    "aten.narrow": Operator(narrow, _MOVES),
    "aten.select": Operator(select, _MOVES),
    "aten.split": Operator(split_at, _MOVES),
    "aten.split_with_sizes": Operator(split_at, _MOVES),
    "aten.split_with_sizes_copy": Operator(split_at, _MOVES),
    "aten.chunk": Operator(lambda step, x, chunks, dim=0: split(step, x, dim=dim), _MOVES),
    "aten.unbind": Operator(unbind, _MOVES),
    "aten.cat": Operator(cat, _MOVES),
    "aten.concat": Operator(cat, _MOVES),
    "aten.stack": Operator(stack, _MOVES),
    "aten.repeat": Operator(repeat, _MOVES),
    "aten.tile": Operator(repeat, _MOVES),
    "aten.repeat_interleave": Operator(repeat_interleave, _MOVES),
    "aten.flip": Operator(flip, _MOVES),
    "aten.pad": Operator(pad, _MOVES),
    "aten.constant_pad_nd": Operator(
        lambda step, x, pad_, value=0: pad(step, x, pad_, "constant", value), _MOVES
    ),
    "aten.unfold": Operator(unfolded, _MOVES),
    **{
        f"aten.{name}": Operator(convert, _CASTS)
        for name in [
            "to",
            "_to_copy",
            "type_as",
            "float",
            "half",
            "bfloat16",
            "to_dtype",
            "_cast_Float",
        ]
    },
    "aten.copy": Operator(copied, "a cast: one rounding, in place"),
    "prims.convert_element_type": Operator(convert, _CASTS),
}
