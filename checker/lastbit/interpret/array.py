"""The array domain: numpy arrays, bit-equal to the exact domain, fast enough for true sizes.

Values of formats are float64 arrays. What is not rounded is an expression (`tensors`) that a
rounding evaluates as enclosures; where both ends of an enclosure round alike, that is the result,
and the few other elements are computed again by the exact core, one by one. So every bit is that of
the exact domain. binary64 itself works, but all inexact results take the slow way; formats of more
than 53 digits are refused.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from lastbit.choices import choice_of
from lastbit.graph import Const, Input, View
from lastbit.interpret.chosen import Chosen
from lastbit.interpret.decide import rounded
from lastbit.interpret.exact import OpaqueError
from lastbit.interpret.folded import Folded
from lastbit.interpret.intervals import Floats, middle
from lastbit.interpret.slabs import scheduled_sum
from lastbit.interpret.tensors import ArrayLimitError, Fixed, Held, Mapped, Tensor, viewed
from lastbit.reals import FUNCTIONS, named
from lastbit.rounding import Rounding
from lastbit.schedule import AnyOrder, Schedule, levels

__all__ = ["ArrayDomain", "ArrayLimitError", "Tensor", "values_of"]


class ArrayDomain:
    """The array domain, on given inputs.

    Args:
        inputs: for each input a float64 array of its shape, of values of its format.
        seed: chooses the order of sums in any order, and of equal elements.

    Attributes:
        notes: what a reader of the results must know, in words.
    """

    def __init__(self, inputs: Mapping[str, Floats], seed: int = 0) -> None:
        self.inputs, self.seed = inputs, seed
        self.notes: set[str] = set()

    def input(self, node: Input) -> Tensor:
        """Return the given values."""
        return Held(np.asarray(self.inputs[node.name], np.float64), node.format)

    def const(self, node: Const) -> Tensor:
        """Return a constant."""
        return Fixed(named(node.value) if isinstance(node.value, str) else node.value)

    def map(self, fn: str, xs: tuple[Tensor, ...]) -> Tensor:
        """Return an elementwise function, to be evaluated when it is rounded.

        Raises:
            OpaqueError: the function has no modelled meaning.
        """
        if fn not in FUNCTIONS:
            raise OpaqueError(f"the function {fn!r} is opaque: it has no exact value.")
        out = Mapped(fn, xs)
        if fn == "neg" and xs[0].closed is not None:
            terms, rounding = xs[0].closed
            out.closed = Mapped("neg", (terms,)), rounding
        return out

    def view(self, node: View, xs: tuple[Tensor, ...]) -> Tensor:
        """Return a view; a closed sum stays one."""
        out = viewed(node, xs)
        if len(xs) == 1 and xs[0].closed is not None:
            terms, rounding = xs[0].closed
            out.closed = viewed(node, (terms,)), rounding
        return out

    def round(self, x: Tensor, rounding: Rounding) -> Tensor:
        """Return the values of x, rounded."""
        return rounded(x, rounding)

    def clamp(self, x: Tensor, rounding: Rounding) -> Tensor:
        """Return x limited to the finite range of the format."""
        fmt = rounding.format
        return Mapped("clamp", (x, Fixed(fmt.min_finite), Fixed(fmt.max_finite)))

    def extreme(self, op: str, x: Tensor, axis: int) -> Tensor:
        """Return the maximum, minimum or choice along an axis."""
        if (choice := choice_of(op)) is not None:
            if choice.ties == "any":
                note = "of equal elements one was chosen in an order drawn with seed"
                self.notes.add(f"{note} {self.seed}")
            return Chosen(choice, x, axis, self.seed)
        return Folded(op, x, axis)

    def total(self, x: Tensor, axis: int) -> Tensor:
        """Return the exact sum along an axis."""
        return Folded("sum", x, axis)

    def tree(self, x: Tensor, axis: int, schedule: Schedule, rounding: Rounding) -> Tensor:
        """Return the sum along an axis by a schedule, rounded at every node.

        Raises:
            ArrayLimitError: the schedule has steps of a matrix unit, and too many of them.
        """
        if any(isinstance(level, AnyOrder) for level in levels(schedule)):
            self.notes.add(f"a sum in any order was run in one order, drawn with seed {self.seed}")
        with np.errstate(all="ignore"):
            return scheduled_sum(x, axis, schedule, rounding, self.seed)

    def open(self, x: Tensor, rounding: Rounding) -> Tensor:
        """Return the terms of a sum; a closed sum of the same rounding opens again."""
        return x.closed[0] if x.closed is not None and x.closed[1] == rounding else x

    def merge(self, sums: list[Tensor]) -> Tensor:
        """Add exactly."""
        out = sums[0]
        for x in sums[1:]:
            out = Mapped("add", (out, x))
        return out

    def gather(self, x: Tensor, axis: int) -> Tensor:
        """Add exactly along an axis."""
        return self.total(x, axis)

    def close(self, x: Tensor, rounding: Rounding) -> Tensor:
        """Round an exact sum once."""
        out = rounded(x, rounding)
        out.closed = x, rounding
        return out


def values_of(x: Tensor) -> Floats:
    """Return the values of a rounded tensor, or the middles of the enclosures of another."""
    with np.errstate(all="ignore"):
        whole = x.whole()
        known = whole.known()
        values = whole.lo if known.all() else np.where(known, whole.lo, middle(whole))
        return np.array(np.broadcast_to(values, x.shape))
