"""Sizes of axes as a traced function sees them: numbers, or expressions of symbols."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any, NoReturn

from lastbit.errors import InputError, LastbitError, Problem
from lastbit.expression import parse_expression
from lastbit.tracing.source import caller


class TraceError(InputError):
    """A function does what cannot be traced; the text says where, and what to write instead."""


def fail(message: str, remedy: str = "") -> NoReturn:
    """Raise an error about the user's expression that is being computed."""
    place, _ = caller()
    raise TraceError([Problem(message, remedy, place)])


@dataclass
class Sizes:
    """What is known of the sizes in one check.

    Attributes:
        fixed: the number that a symbol stands for, where the user gave a number. It has a symbol
            so that it can shrink.
        pinned: numbers that a function used as such, which cannot shrink.
    """

    fixed: Mapping[str, int]
    pinned: set[int] = field(default_factory=set)

    def value(self, text: str) -> int | None:
        """Return the number that an expression stands for; None where a real symbol is in it."""
        expression = parse_expression(text)
        if expression.symbols <= self.fixed.keys():
            return expression.evaluate(self.fixed)
        return None

    def pin(self, text: str) -> None:
        """Note that the numbers in an expression are used as such."""
        symbols = parse_expression(text).symbols
        self.pinned |= {self.fixed[name] for name in symbols if name in self.fixed}


class Size:
    """The size of an axis: what `x.shape[-1]` is.

    It takes part in slices and shapes (`x[:, : n // 2]`), and in arithmetic with values as the
    exact number it is. A size that was given as a number can be used like an int; a symbol has no
    single number while a function is traced.
    """

    __slots__ = ("table", "text")

    def __init__(self, text: str, table: Sizes) -> None:
        self.text, self.table = text, table

    @property
    def value(self) -> int | None:
        """Return the number, or None for an expression of symbols."""
        return self.table.value(self.text)

    def _join(self, sign: str, other: object, reverse: bool = False) -> Any:
        if isinstance(other, bool) or not isinstance(other, int | Size):
            return self._real(sign, other, reverse)
        pair = [f"({self.text})", f"({other.text if isinstance(other, Size) else other})"]
        left, right = reversed(pair) if reverse else pair
        try:
            return Size(parse_expression(f"{left} {sign} {right}").text, self.table)
        except LastbitError as error:
            fail(str(error).rstrip("."))

    def _real(self, sign: str, other: object, reverse: bool) -> Any:
        """Return arithmetic with what is no integer, as an exact value."""
        from lastbit.tracing.tensor import ARITHMETIC, Tensor, as_tensor

        if isinstance(other, Tensor) or sign not in ARITHMETIC:
            return NotImplemented
        pair = [as_tensor(self, self.table), as_tensor(other, self.table)]
        left, right = reversed(pair) if reverse else pair
        return ARITHMETIC[sign](left, right)

    def __add__(self, other: object) -> Any:
        return self._join("+", other)

    def __radd__(self, other: object) -> Any:
        return self._join("+", other, reverse=True)

    def __sub__(self, other: object) -> Any:
        return self._join("-", other)

    def __rsub__(self, other: object) -> Any:
        return self._join("-", other, reverse=True)

    def __mul__(self, other: object) -> Any:
        return self._join("*", other)

    def __rmul__(self, other: object) -> Any:
        return self._join("*", other, reverse=True)

    def __floordiv__(self, other: object) -> Any:
        return self._join("//", other)

    def __rfloordiv__(self, other: object) -> Any:
        return self._join("//", other, reverse=True)

    def __mod__(self, other: object) -> Any:
        return self._join("%", other)

    def __truediv__(self, other: object) -> Any:
        return self._real("/", other, reverse=False)

    def __rtruediv__(self, other: object) -> Any:
        return self._real("/", other, reverse=True)

    def __neg__(self) -> Size:
        return Size(parse_expression(f"-({self.text})").text, self.table)

    def _number(self, what: str) -> int:
        value = self.value
        if value is None:
            fail(
                f"{what} needs a number, and the size `{self.text}` has none while a function is "
                "traced",
                "Give the axis a number, or use the size in slices, shapes and arithmetic only.",
            )
        return value

    def __index__(self) -> int:
        number = self._number("an integer")
        self.table.pin(self.text)
        return number

    def __int__(self) -> int:
        return self.__index__()

    def __float__(self) -> float:
        return float(self.__index__())

    def __bool__(self) -> bool:
        return self._number("a condition") != 0

    def _compared(self, other: object) -> tuple[int, Fraction]:
        if isinstance(other, Size):
            return self._number("a comparison"), Fraction(other._number("a comparison"))
        if isinstance(other, int | float | Fraction) and other == other:
            return self._number("a comparison"), Fraction(other)
        fail(f"a size is compared with {other!r}", "Compare it with a number.")

    def __lt__(self, other: object) -> bool:
        here, there = self._compared(other)
        return here < there

    def __le__(self, other: object) -> bool:
        here, there = self._compared(other)
        return here <= there

    def __gt__(self, other: object) -> bool:
        here, there = self._compared(other)
        return here > there

    def __ge__(self, other: object) -> bool:
        here, there = self._compared(other)
        return here >= there

    def __eq__(self, other: object) -> bool:
        value = self.value
        if isinstance(other, Size):
            return self.text == other.text or (value is not None and value == other.value)
        return value is not None and value == other

    def __hash__(self) -> int:
        value = self.value
        return hash(self.text if value is None else value)

    def __repr__(self) -> str:
        value = self.value
        return self.text if value is None else str(value)
