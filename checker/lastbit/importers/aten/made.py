"""Values that are made of numbers and sizes: constants, indices, and masks by position.

Indices and positions have no form in the language, so they are inputs of their own, which two
graphs share where their sizes are equal.
"""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction

from lastbit.importers.aten.operator import NotCoveredError, Operator, Table
from lastbit.importers.expressions import broadcast_to, literal
from lastbit.importers.imported import Size, Value
from lastbit.importers.writer import Step
from lastbit.plan_model import Distribution


def filled(number: float | None, alone: bool = False) -> Callable[..., None]:
    """Return what states one number everywhere.

    Args:
        number: the number; None: it is an argument.
        alone: whether that is the first argument, else the second.
    """

    def build(
        step: Step, x: object = None, fill_value: object = None, *_: object, **__: object
    ) -> None:
        value = number if number is not None else x if alone else fill_value
        if isinstance(value, Value):
            step.give(broadcast_to(value.name, step.out.dims))
            return
        if isinstance(value, Size):
            step.give(broadcast_to(f"size({value})", step.out.dims))
            return
        given = int(value) if isinstance(value, bool) else value
        if not isinstance(given, int | float):
            raise NotCoveredError(f"the number is {value!r}")
        text = literal(given, step.out.dtype)
        step.give(broadcast_to(text, step.out.dims) if step.out.dims else text)

    return build


def arange(step: Step, *args: object, **_: object) -> None:
    """State the integers from start on, which depend on sizes only: an input of its own."""
    _indices(step, args[0] if len(args) > 1 else 0, args[2] if len(args) > 2 else 1)


def iota(step: Step, length: object, *, start: object = 0, step_: object = 1, **_: object) -> None:
    """State `length` integers from start on."""
    _indices(step, start, step_)


def _indices(step: Step, first: object, by: object) -> None:
    (length,) = step.out.dims
    high = Fraction(int(length) - 1 if length.isdigit() else 4096)
    drawn = Distribution("integers", (Fraction(0), max(high, Fraction(1))))
    word = f"arange_{first}_{length}_{by}_{step.out.dtype}"
    why = "the indices of arange are inputs of their own, equal where their sizes are"
    step.same(step.writer.given(word, step.out.dtype, step.out.dims, drawn, why))


def triangle(name: str) -> Callable[..., None]:
    """Return what states a value with zeros above or below a diagonal."""

    def build(step: Step, x: Value, diagonal: int = 0) -> None:
        rows, columns = x.dims[-2:]
        word = f"{name}_{rows}_{columns}_{diagonal}"
        drawn = Distribution("integers", (Fraction(0), Fraction(1)))
        why = "the mask of tril and triu is an input of its own, equal where its sizes are"
        mask = step.writer.given(word, "bool", (rows, columns), drawn, why)
        step.give(f"select({mask.name}, {x.name}, 0)")

    return build


MADE: Table = {
    **{
        f"aten.{name}": Operator(filled(None), "one number")
        for name in ["full", "full_like", "new_full", "fill"]
    },
    **{
        f"aten.{name}": Operator(filled(0), "zeros")
        for name in ["zeros", "zeros_like", "new_zeros", "zero"]
    },
    **{f"aten.{name}": Operator(filled(1), "ones") for name in ["ones", "ones_like", "new_ones"]},
    "aten.scalar_tensor": Operator(filled(None, alone=True), "one number"),
    "aten.arange": Operator(arange, "an input of its own, made of sizes"),
    "prims.iota": Operator(iota, "an input of its own, made of sizes"),
    "aten.tril": Operator(triangle("tril"), "zeros above a diagonal"),
    "aten.triu": Operator(triangle("triu"), "zeros below a diagonal"),
}
