"""Wrong results that a comparison should not let pass.

Each is a defect that was met: a kernel that wrote nothing, a norm with another epsilon, a loop that
ends before the last columns, a helper that ignored NaN or one element.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Final

import numpy as np

from lastbit.formats import format_of
from lastbit.round_array import round_array
from lastbit.rounding import Rounding
from lastbit.tolerance.operations import EPSILON, Floats, Operation

WIDER: Final = {"f32": "f64", "f16": "f32", "bf16": "f32"}
FACTOR: Final = 1.09
WRONG_EPSILON: Final = 0.1
FORGOTTEN: Final = 32  # one of so many columns is left out of a sum: 128 of 4096
NARROW: Final = "e4m3fn"


@dataclass(frozen=True, slots=True)
class Planted:
    """A wrong result.

    Attributes:
        name: short.
        title: what is wrong.
        values: the result; null where the operation cannot have the fault.
        format: of the values.
        why: why the operation cannot have it.
    """

    name: str
    title: str
    values: Floats | None
    format: str
    why: str = ""


def planted(operation: Operation, expected: Floats) -> Iterator[Planted]:
    """Yield every fault in the result of an operation.

    Args:
        operation: the operation.
        expected: its right result.
    """
    fmt = operation.subject.format

    def fault(name: str, title: str, values: Floats | None, why: str = "") -> Planted:
        return Planted(name, title, values, fmt, why)

    yield fault("zeros", "zeros everywhere", np.zeros_like(expected))
    yield fault("one-element", "one wrong element", _one_wrong(operation, expected))
    yield fault("nan", "NaN everywhere", np.full_like(expected, np.nan))
    shaped = expected[None]
    title = f"another shape, {list(shaped.shape)} for {list(expected.shape)}, of the same values"
    yield fault("shape", title, shaped)
    wider = WIDER[fmt]
    yield Planted("type", f"another type, {wider} for {fmt}, of the same values", expected, wider)
    scaled = operation.rounded(expected * FACTOR)
    yield fault("factor", f"{FACTOR} times too large", scaled)
    yield from _of_sums(operation, fault)
    narrow = round_array(expected, Rounding.of(format_of(NARROW), overflow="saturate"))
    yield fault("fp8", f"stored in {NARROW} on the way", operation.rounded(narrow))
    rows = expected.shape[0] if expected.ndim else 1
    why = "" if rows > 1 else "the result has one row"
    rolled = None if why else np.roll(expected, 1, axis=0)
    yield fault("rows", "each row in its neighbour's place", rolled, why)
    yield fault("sign", "the sign flipped", -expected)


def _of_sums(
    operation: Operation, fault_of: Callable[[str, str, Floats | None, str], Planted]
) -> Iterator[Planted]:
    """Yield the faults of an epsilon, of the columns and of their number."""
    op, terms = operation.subject.op, operation.terms
    norm = op == "norm"
    wrong = operation.rounded(operation.result(epsilon=WRONG_EPSILON)) if norm else None
    why = "" if norm else f"{op} adds no epsilon"
    yield fault_of("epsilon", f"epsilon {WRONG_EPSILON:g} for {EPSILON:g}", wrong, why)
    if terms < 2:
        why = f"{op} adds nothing up" if op == "elementwise" else "its sums have one term"
        yield fault_of("columns", "columns forgotten in a sum", None, why)
        yield fault_of("divisor", "n - 1 for n", None, why)
        return
    left_out = max(1, terms // FORGOTTEN)
    short = operation.rounded(operation.result(columns=terms - left_out))
    yield fault_of("columns", f"{left_out} of {terms} columns forgotten", short, "")
    if op in ("mean", "norm"):
        less = operation.rounded(operation.result(divisor=terms - 1))
        yield fault_of("divisor", f"divided by {terms - 1} for {terms}", less, "")
    else:
        less = operation.rounded(operation.result(columns=terms - 1))
        yield fault_of("divisor", f"{terms - 1} of {terms} terms added", less, "")


def _one_wrong(operation: Operation, expected: Floats) -> Floats:
    """Return the result with one element off by the greatest magnitude of all."""
    rng = np.random.default_rng([operation.subject.seed, 1])
    place = int(rng.integers(expected.size))
    wrong = expected.copy()
    wrong.flat[place] += np.abs(expected).max()
    return operation.rounded(wrong)
