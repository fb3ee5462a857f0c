"""Sums with steps of a matrix unit in the array domain.

The engine (`lastbit.engine`) computes them as matrix products: the axes that only one factor has
are its rows, those that only the other has are the columns, and axes that both have are taken one
index at a time. What the engine does not take (binary64 operands, another rounding) is computed by
the exact domain, step by step.
"""

from __future__ import annotations

import math
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from lastbit.engine.product import Operand, matrix_product
from lastbit.engine.tape import record
from lastbit.formats import F32, Format
from lastbit.graph import Shape
from lastbit.interpret.exact import ExactDomain, Numbers, OpaqueError
from lastbit.interpret.tensors import ArrayLimitError, Held, Mapped, Tensor
from lastbit.levels import Fused, Schedule, levels, plain
from lastbit.round_array import encode_array
from lastbit.rounding import Rounding
from lastbit.schedule import AnyOrder

Floats = NDArray[np.floating[Any]]

MOST_STEPS: Final = 20_000  # that the exact domain does one by one
MOST_PRODUCTS: Final = 1 << 36  # of the engine: about a minute of a processor


def stepped_sum(x: Tensor, axis: int, schedule: Schedule, rounding: Rounding) -> Floats:
    """Return the sum of products along an axis, which the result lacks.

    Args:
        x: products of two values of formats.
        axis: the axis.
        schedule: a bound schedule with steps of a matrix unit.
        rounding: how the additions of the root's format round.

    Raises:
        ArrayLimitError: there is too much to do.
        OpaqueError: a matrix unit would add something that is no product.
    """
    a, b = _factors(x)
    takes = _is_taken(a.format) and _is_taken(b.format) and rounding == Rounding.of(rounding.format)
    if takes and not any(isinstance(level, AnyOrder) for level in levels(schedule)):
        return _by_engine(a, b, x.shape, axis, schedule, rounding.format)
    fused = [level for level in levels(schedule) if isinstance(level, Fused)]
    width = min(plain(level, "k", level.k) for level in fused)
    terms = x.shape[axis]
    steps = x.size // max(terms, 1) * -(-terms // width)
    if steps > MOST_STEPS:
        raise ArrayLimitError(f"`{schedule}` takes {steps} steps of a matrix unit", MOST_STEPS)
    factors = _numbers(a), _numbers(b)
    numbers = Numbers(np.broadcast_to(np.array(None), x.shape), factors=factors)
    total = ExactDomain({}).tree(numbers, axis, schedule, rounding).array
    return np.squeeze(total.astype(np.float64), axis)


def _factors(x: Tensor) -> tuple[Held, Held]:
    """Return the two operands of the products that a matrix unit adds."""
    if isinstance(x, Mapped) and x.fn == "mul":
        made = [arg for arg in x.xs if isinstance(arg, Held) and arg.format is not None]
        if len(made) == 2:
            return made[0], made[1]
    raise OpaqueError("a step of a matrix unit adds products of two values of formats.")


def _is_taken(fmt: Format | None) -> bool:
    return fmt is not None and fmt.kind == "float" and fmt.precision <= F32.precision


def _numbers(x: Held) -> Numbers:
    places = np.arange(math.prod(x.shape)).reshape(x.shape)
    return Numbers(x.exact_at(places), format=x.format)


def _by_engine(
    a: Held, b: Held, shape: Shape, axis: int, schedule: Schedule, fmt: Format
) -> Floats:
    if math.prod(shape) > MOST_PRODUCTS:
        raise ArrayLimitError(f"`{schedule}` adds {math.prod(shape)} products", MOST_PRODUCTS)
    tape = record(schedule, shape[axis], fmt.short)
    arrays = [_ranked(x.array, len(shape)) for x in (a, b)]
    others = [i for i in range(len(shape)) if i != axis]
    both = [i for i in others if all(array.shape[i] != 1 for array in arrays)]
    rows = [i for i in others if i not in both and arrays[0].shape[i] != 1]
    columns = [i for i in others if i not in both and i not in rows]
    sides = []
    for x, array, own in zip((a, b), arrays, (rows, columns), strict=True):
        assert x.format is not None
        full = list(array.shape)
        full[axis] = shape[axis]
        order = [*both, *own, axis]
        # Axes of size 1 that are no operand's own stand among the columns.
        matrix = np.broadcast_to(array, full).transpose(
            order + [i for i in others if i not in order]
        )
        matrix = matrix.reshape(*[shape[i] for i in both], -1, shape[axis])
        sides.append((encode_array(np.ascontiguousarray(matrix, np.float64), x.format), x.format))
    (left, left_format), (right, right_format) = sides
    sizes = [[shape[i] for i in group] for group in (both, rows, columns)]
    out = np.empty((*sizes[0], math.prod(sizes[1]), math.prod(sizes[2])))
    for index in np.ndindex(*sizes[0]):
        matrix_product(
            Operand(left[index], left_format),
            Operand(right[index].T, right_format),
            tape,
            lambda values, _: values,
            out[index],
        )
    total = out.reshape([size for group in sizes for size in group])
    return total.transpose(np.argsort([*both, *rows, *columns]))


def _ranked(array: Floats, rank: int) -> Floats:
    return array.reshape((1,) * (rank - array.ndim) + array.shape)
