"""Convolutions and pooling, written out as sums and maxima over shifted images."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from lastbit.importers.expressions import plain, product_text, reshaped, transposed
from lastbit.importers.imported import Value, is_float
from lastbit.importers.onnx.call import Call, NotModelledError
from lastbit.importers.onnx.operators.elementwise import Build, inner
from lastbit.importers.onnx.operators.microsoft import activated, finish
from lastbit.importers.onnx.operators.sums import accumulator, global_average, scaled_sum
from lastbit.importers.onnx.operators.views import cut, padded

MOST_PLACES = 64  # of one window


@dataclass(frozen=True, slots=True)
class Window:
    """Where the windows of an operator lie, for each axis of the image.

    Attributes:
        kernel: places of a window.
        strides: steps from one window to the next.
        pads: what is put before and after.
        gaps: steps between the places of a window.
    """

    kernel: tuple[int, ...]
    strides: tuple[int, ...]
    pads: tuple[tuple[int, int], ...]
    gaps: tuple[int, ...]

    @classmethod
    def of(cls, call: Call, x: Value, kernel: Sequence[int]) -> Window:
        """Return the windows that a node's attributes describe.

        Raises:
            NotModelledError: they have another form.
        """
        axes = x.rank - 2
        auto = call.attribute("auto_pad", b"NOTSET")
        if axes < 1 or len(kernel) != axes or auto not in (b"NOTSET", b"VALID", "NOTSET", "VALID"):
            raise NotModelledError("the padding depends on sizes, or the image has no axes")
        if call.attribute("ceil_mode", 0):
            raise NotModelledError("sizes are rounded up")
        places = 1
        for size in kernel:
            places *= size
        if not 1 <= places <= MOST_PLACES:
            raise NotModelledError(f"a window has {places} places")
        pads = list(call.attribute("pads") or [0] * 2 * axes)
        strides = tuple(call.attribute("strides") or [1] * axes)
        gaps = tuple(call.attribute("dilations") or [1] * axes)
        if min((*pads, *strides, *gaps)) < 0 or min((*strides, *gaps)) < 1:
            raise NotModelledError("the padding is negative")
        pairs = tuple(zip(pads[:axes], pads[axes:], strict=True))
        return cls(tuple(kernel), strides, pairs, gaps)

    def sizes(self, dims: Sequence[str]) -> tuple[str, ...]:
        """Return the sizes of the result, from those of the image."""
        return tuple(
            plain(f"(({size}) + {pad[0] + pad[1] - gap * (n - 1) - 1}) // {step} + 1")
            for size, pad, gap, n, step in zip(
                dims, self.pads, self.gaps, self.kernel, self.strides, strict=True
            )
        )

    def shifted(self, name: str, out: Sequence[str]) -> list[str]:
        """Return the image for each place of the window, cut to the size of the result."""
        places: list[list[str]] = [[]]
        for n, gap, step, size in zip(self.kernel, self.gaps, self.strides, out, strict=True):
            words = []
            for i in range(n):
                stop = plain(f"{i * gap} + (({size}) - 1) * {step} + 1")
                words.append(f"{i * gap}:{stop}" + (f":{step}" if step > 1 else ""))
            places = [[*place, word] for place in places for word in words]
        return [f"{name}[:, :, {', '.join(place)}]" for place in places]

    @property
    def plain(self) -> bool:
        """Return whether a window is one place, and all places are windows."""
        once = all(n == 1 for n in (*self.kernel, *self.strides))
        return once and not any(a or b for a, b in self.pads)


def framed(call: Call, x: Value, window: Window, value: str) -> Value:
    """Return the image inside a frame."""
    pads = {axis + 2: pad for axis, pad in enumerate(window.pads) if any(pad)}
    if not pads:
        return x
    text, dims = padded(x, pads, value)
    return call.part("framed", text, dims, x.dtype)


def convolved(call: Call) -> tuple[str, tuple[str, ...]]:
    """Return a convolution without its bias as one matrix product, and the sizes.

    Raises:
        NotModelledError: it has groups, or windows of another form.
    """
    x, weight = call.x(0), call.x(1)
    if call.node.domain and x.rank == weight.rank:  # blocks of channels are filled up with zeros
        x = _first_channels(x, weight.dims[1])
    if call.attribute("group", 1) != 1:
        raise NotModelledError("the channels are in groups")
    if weight.rank != x.rank or not all(size.isdigit() for size in weight.dims[2:]):
        raise NotModelledError("the kernel has no fixed size")
    window = Window.of(call, x, [int(size) for size in weight.dims[2:]])
    out = window.sizes(x.dims[2:])
    rows, channels, outs = x.dims[0], x.dims[1], weight.dims[0]
    order = (0, *range(2, x.rank), 1)
    if window.plain:
        terms, text = channels, x.name
    else:
        image = framed(call, x, window, "0")
        shape = (rows, channels, "1", *out)
        cuts = [reshaped(cut, shape) for cut in window.shifted(image.name, out)]
        terms = plain(f"({channels}) * {len(cuts)}")
        joined = f"concat({', '.join(cuts)}, axis=2)" if len(cuts) > 1 else cuts[0]
        text = reshaped(joined, (rows, terms, *out))
    dims = (rows, *out, terms)
    columns = call.part("windows", transposed(text, order), dims, x.dtype)
    kernel = Value(reshaped(weight.name, (outs, terms)), weight.dtype, (outs, terms))
    product, _ = product_text(columns, kernel, swapped=True)
    back = (0, x.rank - 1, *range(1, x.rank - 1))
    return transposed(product, back), (rows, outs, *out)


def _first_channels(x: Value, wanted: str) -> Value:
    """Return the first channels of an image, if it has more than are wanted."""
    own = x.dims[1] if x.rank > 1 else ""
    if not (own.isdigit() and wanted.isdigit() and int(wanted) < int(own)):
        return x
    text = cut(x, 1, "0", wanted)
    return Value(text, x.dtype, (x.dims[0], wanted, *x.dims[2:]))


def _bias(call: Call, rank: int) -> Value | None:
    bias = call.maybe(2)
    if bias is None:
        return None
    dims = (*bias.dims, *["1"] * (rank - 2))
    return Value(reshaped(bias.name, dims), bias.dtype, dims)


def conv(call: Call) -> None:
    """Give a convolution; the bias is added when the sum has rounded in f32."""
    text, dims = convolved(call)
    scaled_sum(call, text, dims, c=_bias(call, len(dims)))


def fused_conv(call: Call) -> None:
    """Give an activation of a convolution, with perhaps another value added before."""
    activated(call, "x")  # refuses one that is not known, before anything is stated
    text, dims = convolved(call)
    dtype = call.x().dtype
    wide = inner(dtype)
    total = call.part("product", text, dims, wide, acc=accumulator(call, dtype)).name
    for added in (_bias(call, len(dims)), call.maybe(3)):
        if added is not None:
            total = f"round({total} + {added.name}, {wide})"
    finish(call, activated(call, total), dims, dtype)


def max_pool(call: Call) -> None:
    """Give the maximum of each window."""
    x = call.x()
    if call.wants(1) or not is_float(x.dtype):
        raise NotModelledError("the places of the maxima are asked for")
    window = Window.of(call, x, call.attribute("kernel_shape") or ())
    out = window.sizes(x.dims[2:])
    cuts = window.shifted(framed(call, x, window, "-inf").name, out)
    while len(cuts) > 1:  # in pairs: no order matters to a maximum
        pairs = zip(cuts[::2], cuts[1::2], strict=False)
        cuts = [f"maximum({a}, {b})" for a, b in pairs] + cuts[len(cuts) // 2 * 2 :]
    call.give(cuts[0], (*x.dims[:2], *out))


def average_pool(call: Call) -> None:
    """Give the sum of each window over its number of places."""
    x = call.x()
    window = Window.of(call, x, call.attribute("kernel_shape") or ())
    if any(map(any, window.pads)) and not call.attribute("count_include_pad", 0):
        raise NotModelledError("windows at the border have fewer places")
    out = window.sizes(x.dims[2:])
    cuts = window.shifted(framed(call, x, window, "0").name, out)
    dims = (*x.dims[:2], *out)
    if len(cuts) == 1:
        call.give(cuts[0], dims)
        return
    wide = ("1", *dims)
    joined = f"concat({', '.join(reshaped(cut, wide) for cut in cuts)}, axis=0)"
    total = f"sum({joined}, axis=0)"
    call.give(reshaped(f"{total} / {len(cuts)}", dims), dims, acc=accumulator(call, x.dtype))


OPERATORS: dict[str, tuple[Build, str]] = {
    "Conv": (conv, "adds in f32, then the bias; no groups"),
    "MaxPool": (max_pool, "the maximum of each window"),
    "AveragePool": (average_pool, "the sum of each window over its number of places"),
}


def _same(call: Call) -> None:
    """Give the image, whose channels are in blocks in memory; the numbers are the same."""
    call.alias(call.x())


def _whole(call: Call) -> None:
    """Give the image without the channels that fill up a block."""
    x = call.x()
    first = _first_channels(x, str(call.attribute("channels", 0) or x.dims[1]))
    if call.attribute("channels_last", 0):
        order = (0, *range(2, x.rank), 1)
        call.give(transposed(first.name, order), [first.dims[i] for i in order])
    elif first is x:
        call.alias(x)
    else:
        call.give(first.name, first.dims)


# The operators of images whose channels are in blocks, domain com.microsoft.nchwc.
BLOCKED: dict[str, tuple[Build, str]] = {
    "ReorderInput": (_same, "the same numbers in another order in memory"),
    "ReorderOutput": (_whole, "the same numbers in another order in memory"),
    "Conv": (fused_conv, "an activation of a convolution, steps in f32"),
    "MaxPool": (max_pool, "the maximum of each window"),
    "AveragePool": (average_pool, "the sum of each window over its number of places"),
    "GlobalAveragePool": (global_average, "sum / n"),
}
MICROSOFT: dict[str, tuple[Build, str]] = {
    "FusedConv": (fused_conv, "an activation of a convolution, steps in f32"),
}
