"""Operators that move values and compute nothing."""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction

from lastbit.importers.expressions import (
    broadcast_dims,
    broadcast_to,
    over,
    plain,
    reshaped,
    times,
    transposed,
)
from lastbit.importers.imported import Value, is_float
from lastbit.importers.onnx import sizes
from lastbit.importers.onnx.call import Call, NotModelledError
from lastbit.importers.onnx.constants import exact, literal, numbers
from lastbit.importers.onnx.folding import folded
from lastbit.importers.onnx.model import TYPES
from lastbit.importers.onnx.operators.elementwise import Build
from lastbit.plan_model import Distribution

FAR = 2**30  # ends of slices beyond this mean "to the last"


def reshape(call: Call) -> None:
    """Give x in another shape; 0 keeps a size and -1 takes what is left."""
    if folded(call) or sizes.moved(call, _rank_wanted(call)):
        return
    x = call.x()
    wanted = list(call.sizes(1))
    if not call.attribute("allowzero", 0):
        wanted = [x.dims[i] if size == "0" else size for i, size in enumerate(wanted)]
    if wanted.count("-1") > 1:
        raise NotModelledError("two sizes are left open")
    call.give(reshaped(x, filled(x.dims, wanted)), filled(x.dims, wanted))


def _rank_wanted(call: Call) -> int | None:
    wanted = call.operand(1)
    return None if wanted is None or wanted.sizes is None else len(wanted.sizes)


def filled(dims: Sequence[str], wanted: Sequence[str]) -> tuple[str, ...]:
    """Return a shape, the -1 in it worked out from the sizes there are; equal sizes cancel."""
    if "-1" not in wanted:
        return tuple(wanted)
    total, others = list(dims), [size for size in wanted if size != "-1"]
    for size in list(others):
        if size in total:
            total.remove(size)
            others.remove(size)
    left = over(times(total), times(others))
    return tuple(left if size == "-1" else size for size in wanted)


def flatten(call: Call) -> None:
    """Give x with two axes."""
    x = call.x()
    axis = call.attribute("axis", 1)
    axis += x.rank if axis < 0 else 0
    dims = times(x.dims[:axis]), times(x.dims[axis:])
    call.give(reshaped(x, dims), dims)


def squeeze(call: Call) -> None:
    """Give x without axes of size 1."""
    if sizes.moved(call, 0):
        return
    x = call.x()
    if call.has(1) or call.attribute("axes") is not None:
        gone = {axis % x.rank for axis in call.integers(1, "axes")}
    else:
        gone = {i for i, size in enumerate(x.dims) if size == "1"}
    dims = tuple(size for i, size in enumerate(x.dims) if i not in gone)
    call.give(reshaped(x, dims), dims)


def unsqueeze(call: Call) -> None:
    """Give x with more axes of size 1."""
    if sizes.moved(call, 1):
        return
    x = call.x()
    axes = call.integers(1, "axes")
    rank = x.rank + len(axes)
    new = {axis % rank for axis in axes}
    old = iter(x.dims)
    dims = tuple("1" if i in new else next(old) for i in range(rank))
    call.give(reshaped(x, dims), dims)


def transpose(call: Call) -> None:
    """Give x with its axes in another order."""
    if folded(call):
        return
    x = call.x()
    order = call.attribute("perm") or list(reversed(range(x.rank)))
    if sorted(order) != list(range(x.rank)):
        raise NotModelledError(f"the order of axes is {list(order)}")
    call.give(transposed(x, order), [x.dims[axis] for axis in order])


def concat(call: Call) -> None:
    """Give values one after the other along an axis."""
    if sizes.concat(call):
        return
    xs = [call.x(i) for i in range(len(call.node.reads))]
    axis = call.attribute("axis", 1) % xs[0].rank
    total = plain(" + ".join(f"({x.dims[axis]})" for x in xs))
    dims = (*xs[0].dims[:axis], total, *xs[0].dims[axis + 1 :])
    listed = ", ".join(x.name for x in xs)
    call.give(listed if len(xs) == 1 else f"concat({listed}, axis={axis})", dims)


def slice_(call: Call) -> None:
    """Give the elements from start to stop along some axes."""
    if folded(call) or sizes.cut(call):
        return
    x = call.x()
    given = call.attribute("starts")
    if given is not None:
        starts, ends = list(map(str, given)), list(map(str, call.attribute("ends")))
        axes = list(call.attribute("axes") or range(len(starts)))
        steps = [1] * len(starts)
    else:
        starts, ends = list(call.sizes(1)), list(call.sizes(2))
        axes = list(call.integers(3)) if call.has(3) else list(range(len(starts)))
        steps = list(call.integers(4)) if call.has(4) else [1] * len(starts)
    words, dims = [":"] * x.rank, list(x.dims)
    for start, end, axis, step in zip(starts, ends, axes, steps, strict=True):
        axis %= x.rank
        if step < 1:
            raise NotModelledError(f"a slice has step {step}")
        first, last = bound(start, x.dims[axis]), bound(end, x.dims[axis])
        words[axis] = f"{first}:{last}" + (f":{step}" if step > 1 else "")
        length = last if first == "0" else plain(f"({last}) - ({first})")
        dims[axis] = length if step == 1 else plain(f"(({length}) + {step - 1}) // {step}")
    call.give(_cut(x, words), dims)


def bound(text: str, size: str) -> str:
    """Return the end of a slice as a place in the axis."""
    try:
        number = int(text)
    except ValueError:
        return text
    if not size.isdigit():
        if number < 0:
            return "0" if number < -FAR else plain(f"({size}) - {-number}")
        return size if number > FAR else text
    limit = int(size)
    return str(min(max(number + limit if number < 0 else number, 0), limit))


def _cut(x: Value, words: Sequence[str]) -> str:
    whole = [word in (":", f"0:{size}") for word, size in zip(words, x.dims, strict=True)]
    if all(whole):
        return x.name
    last = max(i for i, one in enumerate(whole) if not one)
    shown = (":" if one else word for word, one in zip(words, whole, strict=True))
    return f"{x.name}[{', '.join(list(shown)[: last + 1])}]"


def cut(x: Value, axis: int, first: str, last: str, step: int = 1) -> str:
    """Return the elements from first to last along an axis."""
    words = [":"] * x.rank
    words[axis] = f"{first}:{last}" + (f":{step}" if step > 1 else "")
    return _cut(x, words)


def split(call: Call) -> None:
    """Give pieces along an axis."""
    x = call.x()
    axis = call.attribute("axis", 0) % x.rank
    names = len(call.node.gives)
    if call.has(1):
        lengths = list(call.sizes(1))
    elif call.attribute("split") is not None:
        lengths = list(map(str, call.attribute("split")))
    elif x.dims[axis].isdigit():
        total = int(x.dims[axis])
        size = -(-total // names)
        lengths = [str(max(min(size, total - i * size), 0)) for i in range(names)]
    else:
        lengths = [over(x.dims[axis], str(names))] * names
    at = "0"
    for number, length in enumerate(lengths):
        end = sizes.joined(at, "+", length)
        dims = (*x.dims[:axis], length, *x.dims[axis + 1 :])
        call.give(cut(x, axis, at, end), dims, number=number)
        at = end


def expand(call: Call) -> None:
    """Give x repeated to a shape."""
    x = call.x()
    dims = broadcast_dims(x.dims, call.sizes(1))
    call.give(x.name if dims == x.dims else broadcast_to(x.name, dims), dims)


def gather(call: Call) -> None:
    """Give one element along an axis; any other choice depends on data."""
    if sizes.gather(call):
        return
    x, index = call.x(), call.operand(1)
    axis = call.attribute("axis", 0) % max(x.rank, 1)
    if index is None or index.sizes is None or len(index.sizes) != 1 or x.rank == 0:
        raise NotModelledError("elements are chosen by data")
    at = bound(index.sizes[0], x.dims[axis])
    text = cut(x, axis, at, sizes.joined(at, "+", "1"))
    dims = (*x.dims[:axis], *(["1"] if sizes.rank(index) else []), *x.dims[axis + 1 :])
    call.give(reshaped(text, dims), dims)


def constant(call: Call) -> None:
    """Give a constant of the file."""
    tensor = call.attribute("value")
    if tensor is not None:
        dtype = TYPES.get(tensor.data_type, "")
        known = numbers(tensor, dtype)
        dims = tuple(map(str, tensor.dims))
        if known is None or (len(known) != 1 and is_float(dtype)):
            _weight(call, tensor, dtype, dims)
        else:
            call.give_numbers(known, dims, dtype)
        return
    for name, dtype in (("value_float", "f32"), ("value_int", "i64")):
        if (value := call.attribute(name)) is not None:
            call.give_numbers([exact(value)], (), dtype)
            return
    for name, dtype in (("value_floats", "f32"), ("value_ints", "i64")):
        if (values := call.attribute(name)) is not None:
            call.give_numbers([exact(v) for v in values], (str(len(values)),), dtype)
            return
    raise NotModelledError("it holds no numbers")


def _weight(call: Call, tensor: object, dtype: str, dims: Sequence[str]) -> None:
    """Declare a constant of many numbers as an input."""
    call.importer.declare(call.node.gives[0], dtype, dims, tensor)


def constant_of_shape(call: Call) -> None:
    """Give one number everywhere."""
    dims = call.sizes(0)
    tensor = call.attribute("value")
    dtype, number = "f32", exact(0.0)
    if tensor is not None:
        dtype = TYPES.get(tensor.data_type, "")
        known = numbers(tensor, dtype)
        if not known:
            raise NotModelledError("its number is not known")
        number = known[0]
    if not is_float(dtype) and len(dims) == 1 and dims[0].isdigit() and int(dims[0]) <= 256:
        call.give_numbers([number] * int(dims[0]), dims, dtype)
        return
    call.give(broadcast_to(literal(number), dims) if dims else literal(number), dims, dtype)


def pad(call: Call) -> None:
    """Give x with a constant around it."""
    x = call.x()
    mode = call.attribute("mode", b"constant")
    if mode not in (b"constant", "constant"):
        raise NotModelledError("the border is no constant")
    pads = call.integers(1, "pads")
    axes = call.integers(3) if call.has(3) else tuple(range(x.rank))
    value = call.number(2) if call.has(2) else exact(float(call.attribute("value", 0.0)))
    if value is None or len(pads) != 2 * len(axes) or min(pads, default=0) < 0:
        raise NotModelledError("the border is no constant")
    text, dims = padded(
        x, dict(zip(axes, zip(pads, pads[len(axes) :], strict=False), strict=True)), literal(value)
    )
    call.give(text, dims)


def padded(x: Value, pads: dict[int, tuple[int, int]], value: str) -> tuple[str, tuple[str, ...]]:
    """Return x with a constant before and after it along some axes, and the sizes."""
    text, dims = x.name, list(x.dims)
    for axis, (before, after) in pads.items():
        axis %= x.rank
        parts = [text]
        for size, at in ((before, 0), (after, 1)):
            if size:
                shape = [*dims[:axis], str(size), *dims[axis + 1 :]]
                parts.insert(0 if at == 0 else len(parts), broadcast_to(value, shape))
        if len(parts) > 1:
            text = f"concat({', '.join(parts)}, axis={axis})"
            dims[axis] = plain(f"({dims[axis]}) + {before + after}")
    return text, tuple(dims)


def prod_of_sizes(call: Call) -> None:
    """Give the product of a list of sizes."""
    if not sizes.folded(call, times):
        raise NotModelledError("a product along an axis")


def tile(call: Call) -> None:
    """Give x several times along each axis."""
    x = call.x()
    counts = call.integers(1)
    text, dims = x.name, list(x.dims)
    if math.prod(counts) > 64 or min(counts, default=1) < 1:
        raise NotModelledError("it is repeated too often")
    for axis, times_ in enumerate(counts):
        if times_ > 1:
            text = f"concat({', '.join([text] * times_)}, axis={axis})"
            dims[axis] = plain(f"({dims[axis]}) * {times_}")
    call.give(text, dims)


def trilu(call: Call) -> None:
    """Give x with zeros above a diagonal, or below it; the mask is an input of its own."""
    x = call.x()
    diagonal = call.integers(1)[0] if call.has(1) else 0
    rows, columns = x.dims[-2:]
    name = f"{'triu' if call.attribute('upper', 1) else 'tril'}_{rows}_{columns}_{diagonal}"
    drawn = Distribution("integers", (Fraction(0), Fraction(1)))
    why = "the mask of Trilu is an input of its own, equal where its sizes are"
    mask = call.importer.writer.given(name, "bool", (rows, columns), drawn, why)
    call.give(f"select({mask.name}, {x.name}, 0)", x.dims)


def range_(call: Call) -> None:
    """Give start, start + delta ...: known integers, or an input of its own.

    Raises:
        NotModelledError: it depends on data.
    """
    (start,), (limit,), (step,) = (call.sizes(i) for i in range(3))
    texts = start.lstrip("-"), limit.lstrip("-"), step.lstrip("-")
    if all(text.isdigit() for text in texts):
        listed = range(int(start), int(limit), int(step))
        if len(listed) <= sizes.MOST_SIZES:
            call.give_sizes([str(i) for i in listed], (str(len(listed)),))
            return
    if step != "1":
        raise NotModelledError("the step is not 1")
    length = sizes.joined(limit, "-", start)
    high = Fraction(int(length) - 1 if length.isdigit() else 4096)
    drawn = Distribution("integers", (Fraction(0), max(high, Fraction(1))))
    why = "the indices of Range are inputs of their own, equal where their sizes are"
    name = f"arange_{start}_{length}_1_i64"
    value = call.importer.writer.given(name, "i64", (length,), drawn, why)
    call.alias(value)


OPERATORS: dict[str, tuple[Build, str]] = {
    "Shape": (sizes.shape, "the sizes"),
    "Size": (sizes.count, "the number of elements"),
    "Reshape": (reshape, "the same elements in another shape"),
    "Flatten": (flatten, "the same elements with two axes"),
    "Squeeze": (squeeze, "without axes of size 1"),
    "Unsqueeze": (unsqueeze, "with more axes of size 1"),
    "Transpose": (transpose, "axes in another order"),
    "Concat": (concat, "one after the other along an axis"),
    "Slice": (slice_, "elements from start to stop"),
    "Split": (split, "pieces along an axis"),
    "Expand": (expand, "repeated to a shape"),
    "Tile": (tile, "several times along each axis"),
    "Gather": (gather, "one element along an axis; else opaque"),
    "Pad": (pad, "with a constant around it"),
    "Constant": (constant, "numbers of the file"),
    "ConstantOfShape": (constant_of_shape, "one number everywhere"),
    "Trilu": (trilu, "with zeros above or below a diagonal"),
    "Range": (range_, "integers that depend on sizes only"),
    "ReduceProd": (prod_of_sizes, "of sizes only"),
}
