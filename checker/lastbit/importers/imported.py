"""What an importer gives: a program, and for every value where it comes from."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from lastbit.errors import InputError, Place, Problem
from lastbit.plan_model import Distribution, Span
from lastbit.text import Program

NOWHERE = Place()

# Formats that stand for the types of other libraries which are no number formats, or which float64
# arrays do not carry: 64-bit integers are indices, and taken to lie below 2^31.
STORED = {
    "bool": "uint8",
    "u8": "uint8",
    "i8": "int8",
    "i16": "int32",
    "i32": "int32",
    "i64": "int32",
    # Nothing is computed with these; a format stands for the bits that opaque operators hand on.
    "u16": "int32",
    "u32": "f64",
    "u64": "f64",
    "complex32": "f64",
    "complex64": "f64",
    "complex128": "f64",
}
NO_ARITHMETIC = frozenset(("u16", "u32", "u64", "complex32", "complex64", "complex128"))


class ImportedFileError(InputError):
    """A file that cannot be imported.

    Attributes:
        file: the file, as the user named it.
        cause: what is wrong.
        remedy: what to do.
    """

    def __init__(self, file: str, cause: str, remedy: str = "") -> None:
        self.file, self.cause, self.remedy = file, cause, remedy
        super().__init__([Problem(cause, remedy, Place(file))])


class Size(str):
    """A size that is an expression of symbols; a plain `int` is a number."""

    __slots__ = ()


@dataclass(frozen=True, slots=True)
class Value:
    """A value of the program that is being written.

    Attributes:
        name: in the program.
        dtype: the short name of a format, or `bool`, `i64`, `i32`, `u8` ...
        dims: the size of each axis, an expression of symbols.
    """

    name: str
    dtype: str
    dims: tuple[str, ...]

    @property
    def rank(self) -> int:
        """Return the number of axes."""
        return len(self.dims)

    @property
    def is_float(self) -> bool:
        """Return whether results of this type are rounded; integers and truth values are exact."""
        return is_float(self.dtype)

    def axis(self, number: int) -> int:
        """Return an axis counted from the first."""
        return number % max(self.rank, 1)


@dataclass(frozen=True, slots=True)
class Origin:
    """Where a value of the program comes from.

    Attributes:
        original: its name in the file.
        operator: the operator that makes it, as the file names it; None for an input.
        module: the module it belongs to, `layers.3.mlp`; empty where the file does not say.
        place: the line of the user's source.
    """

    original: str
    operator: str | None = None
    module: str = ""
    place: Place = NOWHERE


@dataclass(frozen=True, slots=True)
class Opaque:
    """An operator that is known by its name only: equal on equal inputs.

    Its results are inputs of the program, and the values that it reads are results of it.

    Attributes:
        operator: as the file names it.
        parameters: its other arguments, as a text.
        reads: the values that it reads.
        gives: the values that it makes, in order.
        place: the line of the user's source.
    """

    operator: str
    parameters: str
    reads: tuple[str, ...]
    gives: tuple[str, ...]
    place: Place = NOWHERE


@dataclass(frozen=True, slots=True)
class Imported:
    """A graph that was imported.

    Attributes:
        file: as the user named it.
        program: the statements, their places in the user's source.
        symbols: the sizes of each symbol.
        batch: the symbol that counts rows, or None.
        inputs: how some inputs are drawn: masks and the like, which are no data.
        weights: the inputs that the file holds the values of, by their names there.
        results: the program's outputs that the file returns; others are read by opaque operators.
        origins: of every value that the file names.
        shapes: of every value, the size of each axis.
        opaque: the operators that are known by their names only.
        assumed: what the file does not say and the table of operators supplies.
        by_name: whether its results are known by their names, else by their order.
        contents: what the file holds of weights: texts that are equal only where the numbers are.
        written: the inputs that it writes to; what they hold then are the last of the results.
        types: of every result, its type in the file: `bool` and `u8` share a format, say.
    """

    file: str
    program: Program
    symbols: Mapping[str, Span] = field(default_factory=dict)
    batch: str | None = None
    inputs: Mapping[str, Distribution] = field(default_factory=dict)
    weights: Mapping[str, str] = field(default_factory=dict)
    results: tuple[str, ...] = ()
    origins: Mapping[str, Origin] = field(default_factory=dict)
    shapes: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    opaque: tuple[Opaque, ...] = ()
    assumed: tuple[str, ...] = ()
    by_name: bool = True
    contents: Mapping[str, Callable[[], str]] = field(default_factory=dict)
    written: tuple[str, ...] = ()
    types: Mapping[str, str] = field(default_factory=dict)


def is_float(dtype: str) -> bool:
    """Return whether results of a type are rounded; those of integers are exact."""
    return dtype != "bool" and not (dtype[:1] in "iu" and dtype[1:].isdigit())


def stored(dtype: str) -> str:
    """Return the format whose values a type holds."""
    return STORED.get(dtype, dtype)
