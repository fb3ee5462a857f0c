"""One node of an ONNX graph while it is imported: what it reads, and how it states its results."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Any

from lastbit.importers.imported import Value, is_float
from lastbit.importers.onnx.constants import Number, literal
from lastbit.importers.onnx.model import Node, printable
from lastbit.importers.onnx.opaque import parameters
from lastbit.importers.writer import Out, Step

if TYPE_CHECKING:
    from lastbit.importers.onnx.graph import Importer

Dims = Sequence[str]


class NotModelledError(Exception):
    """A node does what is not modelled; it becomes opaque, with this cause."""


@dataclass(frozen=True, slots=True)
class Operand:
    """A value that nodes read.

    Attributes:
        value: how expressions read it; None for what is no tensor of numbers.
        sizes: of a list of integers that depends on sizes only, each as an expression of symbols.
        numbers: of a small constant.
        kind: type and shape of what has sizes or numbers, as a text.
    """

    value: Value | None
    sizes: tuple[str, ...] | None = None
    numbers: tuple[Number, ...] | None = None
    kind: str = ""

    @property
    def dtype(self) -> str:
        """Return the type of what has sizes or numbers."""
        return self.kind.partition("[")[0]

    @property
    def shape(self) -> tuple[int, ...] | None:
        """Return the shape of what has numbers; None where it is not known."""
        inside = self.kind.partition("[")[2].rstrip("]")
        dims = [dim.strip() for dim in inside.split(",") if dim.strip()]
        known = self.numbers is not None and all(dim.isdigit() for dim in dims)
        return tuple(map(int, dims)) if known else None


class Call:
    """One node.

    Args:
        importer: what is known of the values.
        node: the node.
    """

    def __init__(self, importer: Importer, node: Node) -> None:
        self.importer, self.node = importer, node

    # What it reads.

    def operand(self, number: int) -> Operand | None:
        """Return an operand; None where it is left out."""
        if number >= len(self.node.reads) or not self.node.reads[number]:
            return None
        return self.importer.operand(self.node.reads[number])

    def has(self, number: int) -> bool:
        """Return whether an operand is given."""
        return self.operand(number) is not None

    def x(self, number: int = 0) -> Value:
        """Return an operand as expressions read it.

        Raises:
            NotModelledError: it is left out, or no tensor of numbers.
        """
        found = None
        if self.has(number):
            found = self.importer.value(self.node.reads[number])
        if found is None:
            raise NotModelledError(f"operand {number} is no tensor of numbers")
        return found

    def maybe(self, number: int) -> Value | None:
        """Return an operand, or None where it is left out."""
        return self.x(number) if self.has(number) else None

    def sizes(self, number: int) -> tuple[str, ...]:
        """Return an operand that is a list of sizes.

        Raises:
            NotModelledError: it depends on data.
        """
        found = self.operand(number)
        if found is None or found.sizes is None:
            raise NotModelledError(f"operand {number} depends on data")
        return found.sizes

    def integers(self, number: int, attribute: str = "") -> tuple[int, ...]:
        """Return an operand, or an attribute, that is a list of plain integers.

        Raises:
            NotModelledError: it depends on data or on symbols.
        """
        if attribute and (given := self.attribute(attribute)) is not None:
            return tuple(given)
        try:
            return tuple(int(size) for size in self.sizes(number))
        except ValueError:
            raise NotModelledError(f"operand {number} depends on symbols") from None

    def number(self, number: int) -> Fraction | float | None:
        """Return the one number of an operand that is a constant; else None."""
        found = self.operand(number)
        if found is None or found.numbers is None or len(found.numbers) != 1:
            return None
        return found.numbers[0]

    def attribute(self, name: str, default: Any = None) -> Any:
        """Return an attribute."""
        return self.importer.attribute(self.node, name, default)

    @property
    def version(self) -> int:
        """Return the version of the operators of the node's domain."""
        return self.importer.model.opsets.get(self.node.domain, 1)

    def wants(self, number: int) -> bool:
        """Return whether a result is asked for."""
        return number < len(self.node.gives) and bool(self.node.gives[number])

    # What it gives.

    def give(
        self,
        expr: str,
        dims: Dims,
        dtype: str | None = None,
        acc: str | None = None,
        number: int = 0,
    ) -> None:
        """State a result, rounded once to its type.

        Args:
            expr: an expression of the text form.
            dims: its sizes.
            dtype: its type; None: that of the first operand.
            acc: the format of the accumulator of its sums; None where it holds none.
            number: which result.
        """
        if not self.wants(number):
            return
        name = self.node.gives[number]
        dtype = dtype or self.x(0).dtype
        narrow = self.importer.narrowed.get(name)
        if narrow is not None:  # a conversion follows, and nothing else reads the value
            target, into = narrow
            inner = expr if acc == dtype else f"round({expr}, {dtype})"
            value = self._step(self.importer.originals.get(target, target), into, dims).give(
                inner, acc
            )
            self.importer.operands[target] = Operand(value)
            self.importer.operands[name] = Operand(value)
            return
        original = self.importer.originals.get(name, name)
        value = self._step(original, dtype, dims).give(expr, acc)
        self.importer.operands[name] = Operand(value)

    def alias(
        self,
        x: Value,
        number: int = 0,
        dtype: str | None = None,
        dims: Dims | None = None,
    ) -> None:
        """State that a result is a value that exists: nothing moves and nothing rounds."""
        name = self.node.gives[number]
        dtype, dims = dtype or x.dtype, x.dims if dims is None else tuple(dims)
        self._step(name, dtype, dims).same(x)
        self.importer.operands[name] = Operand(Value(x.name, dtype, tuple(dims)))

    def part(self, word: str, expr: str, dims: Dims, dtype: str, acc: str | None = None) -> Value:
        """State a value inside the node, rounded once to its type."""
        name = next(name for name in self.node.gives if name)
        original = self.importer.originals.get(name, name)
        narrow = self.importer.narrowed.get(name)
        if narrow is not None:
            original = narrow[0]
        return self._step(original, dtype, dims).part(word, expr, dtype, dims, acc)

    def give_sizes(self, sizes: Sequence[str], dims: Dims, dtype: str = "i64") -> None:
        """State a result that is a list of sizes, or one size."""
        self.importer.operands[self.node.gives[0]] = of_sizes(tuple(sizes), tuple(dims), dtype)

    def give_numbers(self, numbers: Sequence[Number], dims: Dims, dtype: str) -> None:
        """State a result that is a constant."""
        self.importer.operands[self.node.gives[0]] = of_numbers(tuple(numbers), tuple(dims), dtype)

    def opaque(self, reads: Sequence[Value], dims: Sequence[Dims], dtypes: Sequence[str]) -> None:
        """State that the node is known by its name only.

        Args:
            reads: the values it reads.
            dims: the sizes of each result that is asked for.
            dtypes: the type of each.
        """
        names = [name for name in self.node.gives if name]
        outs = [
            Out(self.importer.originals.get(name, name), dtype, tuple(shape))
            for name, dtype, shape in zip(names, dtypes, dims, strict=True)
        ]
        writer = self.importer.writer
        writer.step(self.operator, outs, self.node.place).opaque(reads, self.parameters)
        for name, out in zip(names, outs, strict=True):
            self.importer.operands[name] = Operand(writer.values[out.original])

    def limits(self, x: Value) -> tuple[int, int] | None:
        """Return the smallest and the largest number that an integer can be; None: a float."""
        return self.importer.writer.limits(x)

    def assume(self, text: str) -> None:
        """Note what the file does not say."""
        self.importer.writer.assumed[text] = None

    @property
    def operator(self) -> str:
        """Return the operator with its domain, where that is not ONNX's own."""
        domain = f"{printable(self.node.domain)}." if self.node.domain else ""
        return f"{domain}{printable(self.node.op)}"

    @property
    def parameters(self) -> str:
        """Return version, attributes and operands as a text."""
        return parameters(self.importer, self.node)

    def _step(self, original: str, dtype: str, dims: Dims) -> Step:
        outs = [Out(original, dtype, tuple(dims))]
        module = self.importer.rewriter(self.node)
        return self.importer.writer.step(self.operator, outs, self.node.place, module)


def of_sizes(sizes: tuple[str, ...], dims: tuple[str, ...], dtype: str) -> Operand:
    """Return an operand that is a list of sizes, or one size."""
    value = None
    plain = all(size.lstrip("-").isdigit() for size in sizes)
    numbers = tuple(Fraction(int(size)) for size in sizes) if plain else None
    if len(sizes) == 1:
        text = literal(numbers[0]) if numbers else f"size({sizes[0]})"
        value = Value(text, dtype, dims)
    return Operand(value, sizes, numbers, f"{dtype}[{', '.join(dims)}]")


def of_numbers(numbers: tuple[Number, ...], dims: tuple[str, ...], dtype: str) -> Operand:
    """Return an operand that is a small constant."""
    sizes = None
    if not is_float(dtype) and len(dims) <= 1:
        whole = [n for n in numbers if isinstance(n, Fraction) and n.denominator == 1]
        sizes = tuple(str(n) for n in whole) if len(whole) == len(numbers) else None
    value = Value(literal(numbers[0]), dtype, dims) if len(numbers) == 1 else None
    return Operand(value, sizes, numbers, f"{dtype}[{', '.join(dims)}]")
