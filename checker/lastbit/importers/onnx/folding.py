"""Work out tables of integers that a file holds: exporters compute frames and shapes by them.

A list of sizes is kept as expressions (`sizes`). What has more axes holds plain integers only, and
is moved here as it would be when the model runs.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction

import numpy as np

from lastbit.importers.imported import is_float
from lastbit.importers.onnx.call import Call, Operand
from lastbit.importers.onnx.sizes import MOST_SIZES

FAR = 2**30  # ends of slices beyond this mean "to the last"


def folded(call: Call) -> bool:
    """Move a table of integers; return whether that is what the node does."""
    operand = call.operand(0)
    if operand is None or not _is_table(call, operand):
        return False
    shape = operand.shape or ()
    array = np.array([int(n) for n in operand.numbers or ()], object).reshape(shape)
    op = call.node.op
    if op == "Reshape":
        wanted = list(call.integers(1))
        if not call.attribute("allowzero", 0):
            wanted = [shape[i] if size == 0 else size for i, size in enumerate(wanted)]
        moved = array.reshape(wanted)
    elif op == "Transpose":
        moved = array.transpose(call.attribute("perm"))
    else:
        moved = array[_places(call, array.ndim)]
    dims = tuple(map(str, moved.shape))
    call.give_numbers([Fraction(n) for n in moved.ravel()], dims, operand.dtype)
    return True


def _is_table(call: Call, operand: Operand) -> bool:
    """Return whether a node moves plain integers, and has or gives more than one axis."""
    numbers, shape = operand.numbers, operand.shape
    if numbers is None or shape is None or is_float(operand.dtype):
        return False
    if len(numbers) > MOST_SIZES or len(numbers) != math.prod(shape):
        return False
    if call.node.op == "Reshape":
        wanted = call.operand(1)
        return len(shape) > 1 or (wanted is not None and len(wanted.sizes or ()) > 1)
    return len(shape) > 1 or (call.node.op == "Slice" and call.has(4))


def _places(call: Call, rank: int) -> tuple[slice, ...]:
    starts, ends = call.integers(1), call.integers(2)
    axes = call.integers(3) if call.has(3) else tuple(range(len(starts)))
    steps: Sequence[int] = call.integers(4) if call.has(4) else [1] * len(starts)
    places = [slice(None)] * rank
    for start, end, axis, step in zip(starts, ends, axes, steps, strict=True):
        places[axis % rank] = slice(_end(start), _end(end), step)
    return tuple(places)


def _end(at: int) -> int | None:
    return None if abs(at) > FAR else at
