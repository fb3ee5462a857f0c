"""A schedule over K products as a list of instructions, the same for every output.

The list is recorded by `fold`, the one definition of every tree. Steps of a matrix unit that follow
one another are one instruction, a chain.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import lru_cache
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from lastbit.machines import Unit, check_step, unit_of
from lastbit.schedule import Schedule, ScheduleError, fold

Places: TypeAlias = slice | NDArray[np.intp]  # of elements along K


@dataclass(frozen=True, slots=True)
class Zero:
    """An empty accumulator."""


@dataclass(frozen=True, slots=True)
class Leaf:
    """The exact product at a place along K."""

    place: int


@dataclass(frozen=True, slots=True)
class Register:
    """The result of an instruction; it is read once."""

    number: int


Value: TypeAlias = Zero | Leaf | Register


@dataclass(frozen=True, slots=True)
class Add:
    """Round(a + b) in a format."""

    out: int
    a: Value
    b: Value
    format: str


@dataclass(frozen=True, slots=True)
class Convert:
    """Round(a) in a format."""

    out: int
    a: Value
    format: str


@dataclass(frozen=True, slots=True)
class Chain:
    """Steps of a matrix unit one after the other; the accumulator begins at zero.

    Attributes:
        out: the register of the result.
        unit: the matrix unit.
        format: the format of the accumulator.
        pieces: the places along K that each step takes, in order.
    """

    out: int
    unit: Unit
    format: str
    pieces: list[Places] = field(default_factory=list)

    def spans(self) -> tuple[NDArray[np.intp], NDArray[np.intp]] | None:
        """Return where the pieces begin and end, or None unless each is contiguous."""
        slices = [p for p in self.pieces if isinstance(p, slice) and p.step == 1]
        if len(slices) < len(self.pieces):
            return None
        return np.array([s.start for s in slices]), np.array([s.stop for s in slices])


Instruction: TypeAlias = Add | Convert | Chain


@dataclass(frozen=True, slots=True)
class Tape:
    """The instructions of a schedule.

    Attributes:
        k: the number of products.
        format: the format of the result.
        instructions: in the order in which they are done.
        result: the result of each output.
    """

    k: int
    format: str
    instructions: list[Instruction]
    result: Value

    def chains(self) -> Iterator[Chain]:
        """Yield the chains."""
        for instruction in self.instructions:
            if isinstance(instruction, Chain):
                yield instruction


@lru_cache(maxsize=64)
def record(schedule: Schedule, k: int, acc: str) -> Tape:
    """Return the instructions of a bound schedule over k products.

    Args:
        schedule: a bound schedule.
        k: the number of products.
        acc: the format of the accumulator of the whole.

    Raises:
        ScheduleError: a parameter is not bound, a tree has another size, the order is not fixed,
            or a step of a matrix unit would add what is no product.
        MachineError: a matrix unit is not known.
        StepError: a unit does not do a step of the schedule.
    """
    recorder = _Recorder(schedule)
    result = fold(schedule, k, acc, recorder)
    return Tape(k, acc, recorder.instructions, result)


class _Recorder:
    """The algebra that writes the instructions down."""

    def __init__(self, schedule: Schedule) -> None:
        self.schedule = schedule
        self.instructions: list[Instruction] = []
        self.count = 0

    def _fresh(self) -> int:
        self.count += 1
        return self.count - 1

    def zero(self, fmt: str) -> Value:
        return Zero()

    def leaf(self, i: int) -> Value:
        return Leaf(i)

    def add(self, a: Value, b: Value, fmt: str) -> Value:
        out = self._fresh()
        self.instructions.append(Add(out, a, b, fmt))
        return Register(out)

    def convert(self, value: Value, fmt: str) -> Value:
        if isinstance(value, Zero):
            return value
        out = self._fresh()
        self.instructions.append(Convert(out, value, fmt))
        return Register(out)

    def fused(self, acc: Value, terms: list[Value], machine: str, fmt: str) -> Value:
        unit = unit_of(machine)
        check_step(unit, len(terms), fmt)
        places = [term.place for term in terms if isinstance(term, Leaf)]
        if len(places) < len(terms):
            reason = f"a step of `{unit}` adds products of operands, not partial sums"
            raise ScheduleError(str(self.schedule), reason, "Combine them by seq or pairwise.")
        if isinstance(acc, Zero):
            chain = Chain(self._fresh(), unit, fmt)
            self.instructions.append(chain)
        else:
            last = self.instructions[-1]
            assert isinstance(last, Chain)
            assert acc == Register(last.out)
            chain = last
        chain.pieces.append(_places(places))
        return Register(chain.out)

    def any_order(self, values: list[Value], fmt: str) -> Value:
        reason = "a sum in any order has a set of results, not one"
        raise ScheduleError(str(self.schedule), reason, "Name an order, such as seq.")


def _places(numbers: list[int]) -> Places:
    step = numbers[1] - numbers[0] if len(numbers) > 1 else 1
    stop = numbers[0] + step * len(numbers)
    if step > 0 and numbers == list(range(numbers[0], stop, step)):
        return slice(numbers[0], stop - step + 1, step)
    return np.array(numbers, np.intp)
