"""Integer arithmetic element by element, modulo 2**bits as torch does it."""

from __future__ import annotations

from lastbit.importers.aten.operator import NotCoveredError, number, operand
from lastbit.importers.expressions import literal
from lastbit.importers.imported import Value, is_float
from lastbit.importers.integers import wrapped
from lastbit.importers.writer import Step

UNKNOWN = (-(2**63), 2**63 - 1)  # what an integer can be of which nothing is known


def reach(step: Step, x: object) -> tuple[int, int]:
    """Return the smallest and the largest number that an argument can be."""
    if isinstance(x, Value):
        return step.writer.limits(x) or UNKNOWN
    return (int(x), int(x)) if isinstance(x, int) else UNKNOWN


def give_integer(step: Step, text: str, ends: tuple[int, int], name: str, *xs: str) -> None:
    """Give an integer result; opaque where no exact number holds what it is the rest of.

    Args:
        step: the node.
        text: the result before it wraps around, an exact integer.
        ends: the smallest and the largest that it can be.
        name: says what is computed from `xs`.
        xs: the arguments.
    """
    found = wrapped(text, step.out.dtype, ends)
    step.give(found or f"opaque('{name}_{step.out.dtype}', {', '.join(xs)})")


def add_integers(
    step: Step, texts: tuple[str, str], xs: tuple[object, object], alpha: object
) -> None:
    """Give x + alpha * y of integers or truth values.

    Args:
        step: the node.
        texts: x and y as they take part.
        xs: x and y.
        alpha: the factor.
    """
    a, b = texts
    factor = number(alpha)
    if not isinstance(factor, int):
        raise NotCoveredError(f"alpha is {factor!r}")
    if step.out.dtype == "bool":
        if factor != 1:
            raise NotCoveredError(f"alpha is {factor!r}")
        step.give(f"maximum({a}, {b})")
        return
    (low, high), (first, last) = (reach(step, x) for x in xs)
    ends = sorted((factor * first, factor * last))
    times = "" if abs(factor) == 1 else f"{literal(abs(factor), step.out.dtype)} * "
    text = f"{a} {'-' if factor < 0 else '+'} {times}{b}"
    word = f"add_{factor}" if factor >= 0 else f"sub_{-factor}"
    give_integer(step, text, (low + ends[0], high + ends[1]), word, a, b)


def turned(step: Step, x: Value) -> None:
    """State -x."""
    _signed(step, x, "neg")


def absolute(step: Step, x: Value) -> None:
    """State |x|."""
    _signed(step, x, "abs")


def _signed(step: Step, x: Value, name: str) -> None:
    text = f"{name}({operand(x, step.out.dtype)})"
    if is_float(step.out.dtype):
        step.give(text)
        return
    low, high = reach(step, x)
    give_integer(step, text, (-high, max(-low, high)), name, x.name)
