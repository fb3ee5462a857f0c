"""What a view does to an array, whatever its elements are."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from lastbit.graph import View

Array = NDArray[Any]


def view_array(view: View, arrays: tuple[Array, ...]) -> Array:
    """Return the elements that `view` selects from the arrays of its arguments.

    Args:
        view: the view; the arrays have the shapes of its arguments.
        arrays: one array for each argument.
    """
    if view.kind == "concat":
        return np.concatenate(arrays, axis=int(str(view.params[0])))
    (array,) = arrays
    if view.kind == "reshape":
        return array.reshape(view.shape)
    if view.kind == "broadcast":
        return np.broadcast_to(array, view.shape)
    if view.kind == "transpose":
        return array.transpose(tuple(int(str(axis)) for axis in view.params))
    index = []
    for start, stop, step in view.bounds:
        index.append(slice(start, None if stop < 0 else stop, step))
    return array[tuple(index)]
