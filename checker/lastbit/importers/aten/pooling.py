"""Pooling: windows of images, reduced."""

from __future__ import annotations

from collections.abc import Sequence

from lastbit.importers.aten.images import framed_by
from lastbit.importers.aten.operator import NotCoveredError, Operator, Table
from lastbit.importers.aten.sums import mean
from lastbit.importers.expressions import plain
from lastbit.importers.imported import Size, Value
from lastbit.importers.writer import Step

MOST_PLACES = 64  # of one window


def adaptive_average(step: Step, x: Value, output_size: Sequence[int | Size]) -> None:
    """State the mean of the whole image; windows of other sizes are opaque."""
    if any(str(size) != "1" for size in output_size):
        raise NotCoveredError("the output has several places")
    mean(step, x, [-2, -1], True)


def maximum(
    step: Step,
    x: Value,
    kernel_size: Sequence[int],
    stride: Sequence[int] = (),
    padding: Sequence[int] = (0, 0),
    dilation: Sequence[int] = (1, 1),
    ceil_mode: bool = False,
) -> None:
    """State the maximum of each window, as a maximum of shifted images."""
    if ceil_mode or x.rank != 4 or any(isinstance(n, Size) for n in (*kernel_size, *padding)):
        raise NotCoveredError("only plain windows in two dimensions are written out")
    kernel, edges, gaps = _pair(kernel_size), _pair(padding), _pair(dilation)
    jumps = _pair(stride) if stride else kernel
    if kernel[0] * kernel[1] > MOST_PLACES:
        raise NotCoveredError(f"a window has {kernel[0] * kernel[1]} places")
    if len(step.outs) > 1:
        raise NotCoveredError("the places of the maxima are results")
    framed = framed_by(step, x, edges, "-inf")
    shifted = []
    for i in range(kernel[0]):
        for j in range(kernel[1]):
            words = [":", ":"]
            for axis, at in ((0, i), (1, j)):
                start, size = at * gaps[axis], step.out.dims[2 + axis]
                stop = plain(f"{start} + (({size}) - 1) * {jumps[axis]} + 1")
                words.append(f"{start}:{stop}" + (f":{jumps[axis]}" if jumps[axis] != 1 else ""))
            shifted.append(f"{framed.name}[{', '.join(words)}]")
    while len(shifted) > 1:  # in pairs: short expressions, and no order matters to a maximum
        pairs = zip(shifted[::2], shifted[1::2], strict=False)
        odd = shifted[len(shifted) // 2 * 2 :]
        shifted = [f"maximum({a}, {b})" for a, b in pairs] + odd
    step.give(shifted[0])


def _pair(values: Sequence[int]) -> tuple[int, int]:
    return values[0], values[-1]


_MEAN = "of the whole image: accumulated in f32, rounded once; else opaque"

POOLING: Table = {
    "aten.adaptive_avg_pool2d": Operator(adaptive_average, _MEAN),
    "aten._adaptive_avg_pool2d": Operator(adaptive_average, _MEAN),
    "aten.max_pool2d": Operator(maximum, "the maximum of each window; exact"),
}
