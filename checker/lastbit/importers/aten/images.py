"""What operators on images share: the frame around an image."""

from __future__ import annotations

from lastbit.importers.expressions import broadcast_to, plain
from lastbit.importers.imported import Value
from lastbit.importers.writer import Step


def framed_by(step: Step, x: Value, edges: tuple[int, int], number: str) -> Value:
    """Return images inside a frame.

    Args:
        step: the node.
        x: the images, `[rows, channels, height, width]`.
        edges: the width of the frame above and below, and on the left and on the right.
        number: what the frame consists of.
    """
    dims, text = list(x.dims), x.name
    for axis, n in ((2, edges[0]), (3, edges[1])):
        if n:
            edge = broadcast_to(number, [*dims[:axis], str(n), *dims[axis + 1 :]])
            text = f"concat({edge}, {text}, {edge}, axis={axis})"
            dims[axis] = plain(f"{dims[axis]} + {2 * n}")
    return x if text == x.name else step.part("framed", text, x.dtype, dims)
