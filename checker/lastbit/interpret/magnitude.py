"""How large a value would be if nothing cancelled: the scale of its rounding errors.

The *scale* of a value is

- its magnitude, for an input or a constant;
- the sum of the scales, for a sum or a difference of any number of terms: so for a sum of inputs
  it is the sum of absolute terms;
- the product of the scales, for a product; for a quotient a / b, the scale of a divided by |b|,
  times the scale of b divided by |b|;
- the largest of the scales, for a maximum or a minimum; of an index, the index;
- the magnitude of the result plus the slope times what the argument's scale exceeds the argument,
  for any other function: a perturbation of one part in n of the argument's scale then changes the
  result by one part in n of its own scale, to first order.

A rounding changes no scale. Without sums and differences it is the magnitude of the value itself.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, TypeAlias

import numpy as np

from lastbit.choices import is_index
from lastbit.graph import Map, Node, Reduce, Round, View, topological
from lastbit.interpret.array import values_of
from lastbit.interpret.elementary import elementary
from lastbit.interpret.folded import STORED, contract
from lastbit.interpret.intervals import Floats, exactly, middle
from lastbit.interpret.tensors import Tensor
from lastbit.interpret.views import view_array

CHOICES: Final = ("less", "less_equal", "equal", "sign", "floor", "ceil")
NUDGE: Final = 2.0**-20  # relative step of a difference quotient


@dataclass(frozen=True, slots=True)
class _Product:
    """Scales of a product that are not multiplied out."""

    a: Floats
    b: Floats


_Scale: TypeAlias = Floats | _Product


def scale_of(root: Node, known: Mapping[bytes, Tensor]) -> Floats:
    """Return the scale of every element of a node.

    Args:
        root: the node.
        known: the values of the nodes by key, as `evaluate` in the array domain leaves them.
    """
    nodes = list(topological([root]))
    with np.errstate(all="ignore"):
        if not any(_cancels(node) for node in nodes):
            return np.abs(values_of(known[root.key]))
        found: dict[bytes, _Scale] = {}
        for node in nodes:
            found[node.key] = _scale(node, found, known)
        return np.array(np.broadcast_to(_full(found[root.key]), root.shape))


def _cancels(node: Node) -> bool:
    if isinstance(node, Map):
        return node.fn in ("add", "sub")
    return isinstance(node, Reduce) and node.op == "sum"


def _full(scale: _Scale) -> Floats:
    return scale.a * scale.b if isinstance(scale, _Product) else scale


def _scale(node: Node, found: Mapping[bytes, _Scale], known: Mapping[bytes, Tensor]) -> _Scale:
    match node:
        case Map(fn="mul", xs=(x, y)):
            a, b = (_ranked(_full(found[arg.key]), arg.shape, node.shape) for arg in (x, y))
            size = int(np.prod(node.shape))
            return _Product(a, b) if size > STORED else a * b
        case Map(fn=fn, xs=xs):
            return _mapped(fn, node, [_full(found[x.key]) for x in xs], known)
        case Round(x=x):
            return found[x.key]
        case View(kind="slice" | "transpose", xs=(x,)) if isinstance(
            product := found[x.key], _Product
        ):
            a, b = (np.broadcast_to(factor, x.shape) for factor in (product.a, product.b))
            return _Product(_thin(view_array(node, (a,))), _thin(view_array(node, (b,))))
        case View(xs=xs):
            shown = (np.broadcast_to(_full(found[x.key]), x.shape) for x in xs)
            return np.asarray(view_array(node, tuple(shown)))
        case Reduce(op=op, x=x, axis=axis) if not is_index(op):
            scale = found[x.key]
            if op == "sum" and isinstance(scale, _Product):
                return contract(scale.a, scale.b, axis)
            full = np.broadcast_to(_full(scale), x.shape)
            if op == "sum":
                return np.asarray(np.sum(full, axis=axis, keepdims=True))
            return np.asarray(np.max(full, axis=axis, keepdims=True, initial=0.0))
    return np.abs(values_of(known[node.key]))


def _thin(array: Floats) -> Floats:
    """Return an array with size 1 along the axes on which it repeats one element."""
    index = (slice(0, 1) if stride == 0 else slice(None) for stride in array.strides)
    return array[tuple(index)]


def _ranked(array: Floats, shape: tuple[int, ...], full: tuple[int, ...]) -> Floats:
    return np.broadcast_to(array, shape).reshape((1,) * (len(full) - len(shape)) + shape)


def _mapped(fn: str, node: Map, scales: list[Floats], known: Mapping[bytes, Tensor]) -> Floats:
    if fn in ("add", "sub"):
        return scales[0] + scales[1]
    if fn in ("neg", "abs", "relu", "clamp"):
        return scales[0]
    if fn in ("max", "min"):
        return np.maximum(scales[0], scales[1])
    if fn == "select":
        condition = values_of(known[node.xs[0].key])
        return np.where(condition != 0, scales[1], scales[2])
    if fn == "div":
        divisor = np.abs(values_of(known[node.xs[1].key]))
        return scales[0] / divisor * (scales[1] / divisor)
    if fn in CHOICES or len(node.xs) != 1:
        return np.abs(values_of(known[node.key]))
    x = values_of(known[node.xs[0].key])
    size = np.abs(middle(elementary(fn, (exactly(x),))))
    excess = scales[0] - np.abs(x)
    if not (excess > 0).any():
        return size
    step = np.abs(x) * NUDGE + 2.0**-40
    ends = [middle(elementary(fn, (exactly(x + d),))) for d in (-step, step)]
    slope = np.abs(ends[1] - ends[0]) / (2 * step)
    return size + np.where(np.isfinite(slope) & (excess > 0), slope * excess, 0.0)
