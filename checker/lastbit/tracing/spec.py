"""What an input of a function is: its format, its shape, and how its values are drawn.

    lastbit.bf16("M", 4096)                              bf16[M, 4096]
    lastbit.bf16("M", "2*K").range(-8, 8)                uniform(-8, 8) in [-8, 8]
    lastbit.f32("M", 64).drawn("normal(0, 0.02)")        normal(0, 0.02)

The same as text, for the command line: `bf16[M, 4096] normal(0, 1) in [-8, 8]`.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import lru_cache
from typing import TYPE_CHECKING

from lastbit.errors import InputError, LastbitError, Problem
from lastbit.expression import Expression, parse_expression
from lastbit.formats import FORMATS, Format, format_of
from lastbit.statement import MAX_SIZE

if TYPE_CHECKING:
    from lastbit.plan_model import Distribution

FORM = "bf16[M, 4096]"

_TEXT = re.compile(
    r"\s*(?P<format>\w+)\s*\[(?P<dims>[^\[\]]*)\]"
    r"\s*(?P<drawn>\w+\s*\([^()]*\))?"
    r"(?:\s*\bin\s*\[(?P<low>[^\[\],]+),(?P<high>[^\[\],]+)\])?\s*"
)


@dataclass(frozen=True, slots=True)
class Spec:
    """An input of a function: format and shape, and perhaps how its values are drawn.

    Attributes:
        format: the format of the values.
        dims: the size of each axis, an expression of symbols.
        distribution: how values are drawn for drift; None: from normal(0, 1), or uniformly from
            the range.
        limits: the range that values are limited to, or None.
    """

    format: Format
    dims: tuple[Expression, ...]
    distribution: str | None = None
    limits: tuple[Fraction, Fraction] | None = None

    def __post_init__(self) -> None:
        self.given()  # refuses a distribution that cannot be

    def range(self, low: float | Fraction, high: float | Fraction) -> Spec:
        """Return the input with its values limited to a closed range."""
        return replace(self, limits=(_bound(low), _bound(high)))

    def drawn(self, distribution: str) -> Spec:
        """Return the input with its values drawn for drift, from `normal(0, 0.02)` for example."""
        return replace(self, distribution=distribution)

    @property
    def symbols(self) -> frozenset[str]:
        """Return the size symbols of the shape."""
        return frozenset(symbol for dim in self.dims for symbol in dim.symbols)

    def given(self) -> Distribution | None:
        """Return how values are drawn; None where nothing is said of them.

        Raises:
            InputError: the distribution cannot be read, or the range does not rise.
        """
        if self.distribution is None and self.limits is None:
            return None
        from lastbit.plan_model import Distribution
        from lastbit.plan_values import read_distribution

        if self.limits is not None and self.limits[0] > self.limits[1]:
            low, high = (float(bound) for bound in self.limits)
            raise _error(f"the range [{low:g}, {high:g}] does not rise", "Write .range(-8, 8).")
        if self.distribution is None:
            assert self.limits is not None
            return Distribution("uniform", self.limits, self.limits)
        found = read_distribution(self.distribution)
        if isinstance(found, Problem):
            raise InputError([found])
        return Distribution(*found, self.limits)

    def __str__(self) -> str:
        given = self.given()
        shape = ", ".join(map(str, self.dims))
        return f"{self.format.short}[{shape}]" + (f" {given}" if given else "")


def spec(fmt: str, *dims: int | str) -> Spec:
    """Return an input of a format, with a size or an expression of symbols for each axis.

    Raises:
        InputError: a size cannot be.
        UnknownFormatError: there is no such format.
    """
    return Spec(format_of(fmt), tuple(_dim(dim) for dim in dims))


def _dim(dim: object) -> Expression:
    if isinstance(dim, str):
        return parse_expression(dim)
    if type(dim) is int and 1 <= dim <= MAX_SIZE:
        return parse_expression(str(dim))
    raise _error(
        f"the size {dim!r} cannot be", f'Write a number from 1 to {MAX_SIZE}, or a symbol: "M".'
    )


def _bound(value: float | Fraction) -> Fraction:
    try:
        return Fraction(value)
    except (TypeError, ValueError, OverflowError):
        raise _error(f"{value!r} cannot end a range", "Write finite numbers.") from None


def parse_spec(text: str) -> Spec:
    """Return the input that a text stands for, such as `bf16[M, 4096] normal(0, 1) in [-8, 8]`.

    Raises:
        InputError: the text says no input.
    """
    match = _TEXT.fullmatch(text)
    if not match:
        raise _error(f"{text!r} is no input", f"Write {FORM}, or {FORM} normal(0, 1) in [-8, 8].")
    try:
        fmt = format_of(match["format"])
    except LastbitError as error:
        raise _error(str(error)) from None
    dims = tuple(parse_expression(dim) for dim in match["dims"].split(",") if dim.strip())
    limits = None
    if match["low"]:
        try:
            limits = Fraction(match["low"].strip()), Fraction(match["high"].strip())
        except ValueError:
            raise _error(f"the range of {text!r} holds what is no number", "Write [-8, 8].") from (
                None
            )
    return Spec(fmt, dims, match["drawn"], limits)


def _error(message: str, remedy: str = "") -> InputError:
    return InputError([Problem(message, remedy)])


@lru_cache(maxsize=64)
def spec_of(name: str) -> Callable[..., Spec] | None:
    """Return what makes inputs of the format of this name; None where there is no such format."""
    fmt = next((fmt for fmt in FORMATS.values() if name in (fmt.short, fmt.name)), None)
    if fmt is None:
        return None

    def of_format(*dims: int | str) -> Spec:
        return spec(fmt.short, *dims)

    of_format.__name__ = of_format.__qualname__ = name
    of_format.__doc__ = f"Return an input in {fmt.name}: a number or an expression for each axis."
    return of_format
