"""A quick run of both sides of a region, up to the first value that is not ordinary.

It is made in the array domain: bit for bit what the exact domain makes, and many times faster where
values are many. It does not see inside sums, so a run that passes is yet to be shown ordinary in
the exact domain; one that is stopped for certain is not ordinary there either.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np

from lastbit.errors import LastbitError
from lastbit.formats import Format
from lastbit.graph import Node, topological
from lastbit.interpret.array import ArrayDomain, values_of
from lastbit.interpret.evaluate import evaluate
from lastbit.interpret.intervals import Floats, Mask
from lastbit.interpret.policy import Policy
from lastbit.interpret.tensors import Tensor
from lastbit.rounding import Rounding
from lastbit.schedule import Schedule
from lastbit.verify.region import Region
from lastbit.verify.runs import Inputs

MOST_DIGITS = 53  # of a format whose values the array domain holds


@dataclass(frozen=True, slots=True)
class Glance:
    """What a quick run shows.

    Attributes:
        stopped: the first node whose values are not ordinary, or None.
        passed: the nodes before it, and the share of its own elements that are ordinary.
        differs: whether the results differ in their bits; known where nothing stopped the run.
    """

    stopped: Node | None
    passed: float
    differs: bool = False


def glance(region: Region, inputs: Inputs, *, wary: bool = False) -> Glance | None:
    """Run both sides quickly.

    Args:
        region: the two graphs; no sum in them is in any order.
        inputs: values of the inputs, all ordinary.
        wary: whether a zero stops the run too where the number before its rounding is not shown to
            be zero.

    Returns:
        None where the array domain cannot run them.
    """
    if any(node.format.precision > MOST_DIGITS for node in region.inputs):
        return None
    arrays = {
        name: np.array([float(value) for value in array.flat]).reshape(array.shape)
        for name, array in inputs.items()
    }
    nodes, begun = _nodes(region), 0

    def tick() -> None:
        nonlocal begun
        begun += 1

    known: dict[bytes, Tensor] = {}
    roots = (*region.before.results, *region.after.results)
    try:
        values = evaluate(roots, _Watched(arrays, wary=wary), Policy.BITS, known, tick)
        results = [
            np.broadcast_to(values_of(v), n.shape) for v, n in zip(values, roots, strict=True)
        ]
    except _StoppedError as stop:
        return Glance(nodes[begun - 1], begun - 1 + stop.share)
    except (LastbitError, ArithmeticError):
        return None
    half = len(region.before.results)
    pairs = zip(results[:half], results[half:], strict=True)
    return Glance(None, len(nodes), any(a.tobytes() != b.tobytes() for a, b in pairs))


@lru_cache(maxsize=64)
def _nodes(region: Region) -> tuple[Node, ...]:
    """Return the nodes of both sides in the order in which they are evaluated, each once."""
    roots = (*region.before.results, *region.after.results)
    return tuple({node.key: node for node in topological(roots)}.values())


class _StoppedError(Exception):
    """A value is not ordinary.

    Attributes:
        share: of the values of its node that are ordinary.
    """

    def __init__(self, share: float) -> None:
        super().__init__(share)
        self.share = share


class _Watched(ArrayDomain):
    """The array domain, stopped by the first value that is not ordinary."""

    def __init__(self, inputs: Mapping[str, Floats], *, wary: bool) -> None:
        super().__init__(inputs)
        self.wary = wary

    def round(self, x: Tensor, rounding: Rounding) -> Tensor:
        """Return the values of x, rounded, if all are ordinary."""
        out = super().round(x, rounding)
        values = values_of(out)
        good = _plain(values, rounding.format)
        if self.wary and rounding.format.kind == "float" and not values.all():
            whole = x.whole()
            good &= (values != 0) | ((whole.lo == 0) & (whole.hi == 0))
        _pass(good)
        return out

    def tree(self, x: Tensor, axis: int, schedule: Schedule, rounding: Rounding) -> Tensor:
        """Return a sum by a schedule, if all its results are ordinary."""
        out = super().tree(x, axis, schedule, rounding)
        _pass(_plain(values_of(out), rounding.format))
        return out


def _pass(good: Any) -> None:
    if not good.all():
        raise _StoppedError(float(good.mean()))


def _plain(values: Floats, fmt: Format) -> Mask:
    """Return which values are finite, not below the smallest normal, and no negative zero."""
    zero = values == 0
    small = ~zero & (np.abs(values) < float(fmt.min_normal))
    return np.asarray(np.isfinite(values) & ~small & ~(zero & np.signbit(values)))
