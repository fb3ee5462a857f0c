"""Write a program statement by statement, in the words of the file that it comes from.

An importer makes one `Writer`, declares the inputs, and for every node of the file begins a `Step`,
by which a table of operators states what the node computes. The expressions are those of the text
form (`lastbit.text`); a step names what stands between them.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from keyword import iskeyword

from lastbit.errors import Place
from lastbit.expression import parse_expression
from lastbit.formats import format_of
from lastbit.importers.imported import NOWHERE, Imported, Opaque, Origin, Value, is_float, stored
from lastbit.importers.integers import limits
from lastbit.importers.renaming import words_of
from lastbit.plan_model import Distribution, Span
from lastbit.rounding import Overflow, Rounding
from lastbit.schedule import Schedule, parse_schedule
from lastbit.statement import RESERVED, Statement
from lastbit.text import Program

ORDER = "seq"  # of a sum whose order the file does not say
ORDER_ASSUMED = f"sums add from left to right in their accumulator (`{ORDER}`)"

_NO_WORD = re.compile(r"\W+", re.ASCII)


@dataclass(frozen=True, slots=True)
class Out:
    """A result that the file states for a node: its name there, its type and its sizes."""

    original: str
    dtype: str
    dims: tuple[str, ...]


class Writer:
    """Collects the statements of one file.

    Args:
        file: as the user named it.
        device: where the file's operators run, `cpu` or `cuda`; some contracts depend on it.
        saturates: whether casts to 8-bit formats saturate.
    """

    def __init__(self, file: str, device: str = "cpu", saturates: bool = False) -> None:
        self.file, self.device, self.saturates = file, device, saturates
        self.statements: dict[str, Statement] = {}
        self.values: dict[str, Value] = {}  # by the file's name
        self.origins: dict[str, Origin] = {}
        self.opaque: list[Opaque] = []
        self.assumed: dict[str, None] = {}
        self.inputs: dict[str, Distribution] = {}
        self._given: dict[str, str] = {}  # by input that the file does not have, what is noted
        self._types: dict[str, str] = {}
        self._shapes: dict[str, tuple[str, ...]] = {}
        self._reserved: set[str] = set()

    def reserve(self, symbols: Iterable[str]) -> None:
        """Keep the symbols of sizes from being names of values."""
        self._reserved.update(symbols)

    def input(self, out: Out, place: Place = NOWHERE, module: str = "") -> Value:
        """Declare an input of the program, under its name in the file."""
        value = Value(self.fresh(out.original), out.dtype, out.dims)
        self.origins[value.name] = Origin(out.original, None, module, place)
        self._declare(value, place)
        self.values[out.original] = value
        return value

    def given(
        self, name: str, dtype: str, dims: Sequence[str], drawn: Distribution, why: str = ""
    ) -> Value:
        """Return an input that the file does not have: indices or a mask that depend on sizes only.

        Equal names are one input, so that two files share it.

        Args:
            name: says all that it depends on.
            dtype: its type.
            dims: its sizes.
            drawn: how its values are drawn for drift.
            why: is noted where what the file returns reads it; empty: nothing is.
        """
        name = _word(name)
        if why:
            self._given[name] = why
        value = Value(name, dtype, tuple(dims))
        if name not in self.statements:
            self._declare(value, NOWHERE)
            self.inputs[name] = drawn
        return value

    def _declare(self, value: Value, place: Place) -> None:
        rounding = Rounding.of(format_of(stored(value.dtype)))
        dims = tuple(map(parse_expression, value.dims))
        st = Statement(value.name, rounding, dims, None, None, None, place)
        self.statements[value.name] = st
        self._types[value.name] = value.dtype
        self._shapes[value.name] = tuple(value.dims)

    def step(
        self, operator: str, outs: Sequence[Out], place: Place = NOWHERE, module: str = ""
    ) -> Step:
        """Begin what a node of the file computes."""
        return Step(self, operator, tuple(outs), place, module)

    def limits(self, x: Value) -> tuple[int, int] | None:
        """Return the smallest and the largest number that an integer value can be; None: a float.

        Integers that were cast from a narrower type lie in that one.
        """
        name, found = x.name, limits(x.dtype)
        own = limits(self._types.get(name, x.dtype))
        if found is not None and own is not None:
            found = max(found[0], own[0]), min(found[1], own[1])
        while (st := self.statements.get(name)) is not None and st.expr in self.statements:
            name = st.expr
            ends = limits(self._types[name])
            if found is None or ends is None:
                break
            found = max(found[0], ends[0]), min(found[1], ends[1])
        return found

    def fresh(self, original: str) -> str:
        """Return a name that no value has yet, as near to the file's as can be."""
        base = name = _word(original)
        count = 1
        while name in self.statements or name in self._reserved:
            count += 1
            name = f"{base}_{count}"
        return name

    def state(
        self,
        name: str,
        expr: str,
        dtype: str,
        dims: Sequence[str],
        acc: str | None,
        place: Place,
        saturates: bool = False,
        order: str = ORDER,
    ) -> Value:
        """Write one statement; its result is rounded once to `dtype`, if that is a float.

        Args:
            name: one that no value has yet.
            expr: an expression of the text form.
            dtype: the type of the result; `real` does not round.
            dims: its sizes.
            acc: the format of the accumulator of its sums; None where it holds none.
            place: the line of the user's source.
            saturates: whether overflow gives the largest finite number.
            order: the schedule of its sums; what the file does not say is assumed.
        """
        rounding = None
        if dtype != "real" and is_float(dtype):
            overflow: Overflow | None = "saturate" if saturates else None
            rounding = Rounding.of(format_of(dtype), overflow=overflow)
        tree: Schedule | None = None
        accumulator: Rounding | None = None
        if acc is not None:
            tree, accumulator = parse_schedule(order), Rounding.of(format_of(acc))
            if order == ORDER:
                self.assumed[ORDER_ASSUMED] = None
        self.statements[name] = Statement(name, rounding, None, expr, accumulator, tree, place)
        self._types[name] = dtype
        self._shapes[name] = tuple(dims)
        return Value(name, dtype, tuple(dims))

    def imported(
        self,
        results: Iterable[str],
        symbols: Mapping[str, Span],
        batch: str | None = None,
        weights: Mapping[str, str] | None = None,
    ) -> Imported:
        """Return what was written.

        Args:
            results: the values that the file returns, by its own names, in order.
            symbols: the sizes of each symbol.
            batch: the symbol that counts rows, or None.
            weights: the inputs that the file holds the values of, by program name.
        """
        types = {value.name: value.dtype for value in (self.values[name] for name in results)}
        returned = tuple(types)
        read = (name for one in self.opaque for name in one.reads)
        outputs = tuple(dict.fromkeys([*returned, *read]))
        computed = tuple(name for name in outputs if self.statements[name].expr is not None)
        for name in computed:
            self._round_result(name)
        return Imported(
            self.file,
            Program(tuple(self.statements.values()), computed),
            dict(symbols),
            batch,
            dict(self.inputs),
            dict(weights or {}),
            tuple(name for name in returned if name in computed),
            dict(self.origins),
            dict(self._shapes),
            tuple(self.opaque),
            tuple(dict.fromkeys([*self.assumed, *self._why_given(outputs)])),
            types=types,
        )

    def _why_given(self, outputs: Iterable[str]) -> list[str]:
        """Return the notes on inputs that the file does not have and something of it reads."""
        if not self._given:
            return []
        stack = [*outputs]
        seen = set(stack)
        while stack:
            st = self.statements[stack.pop()]
            new = {w for w in words_of(st.expr or "") if w in self.statements} - seen
            seen |= new
            stack += new
        return [why for name, why in self._given.items() if name in seen]

    def _round_result(self, name: str) -> None:
        """Give a result that is exact, an integer, the format that holds it."""
        st, dtype = self.statements[name], self._types[name]
        if st.rounding is None and dtype != "real":
            rounding = Rounding.of(format_of(stored(dtype)))
            self.statements[name] = replace(st, rounding=rounding)


@dataclass(frozen=True, slots=True)
class Step:
    """One node of the file, and what it gives.

    Attributes:
        writer: collects the statements.
        operator: the node's operator, as the file names it.
        outs: the results that the file states.
        place: the line of the user's source.
        module: the module it belongs to.
    """

    writer: Writer
    operator: str
    outs: tuple[Out, ...]
    place: Place
    module: str

    @property
    def out(self) -> Out:
        """Return the first result."""
        return self.outs[0]

    @property
    def device(self) -> str:
        """Return where the operators run."""
        return self.writer.device

    def give(
        self, expr: str, acc: str | None = None, number: int = 0, saturates: bool = False
    ) -> Value:
        """State a result: an expression that is rounded once to the result's type.

        Args:
            expr: an expression of the text form, of the result's shape.
            acc: the format of the accumulator of its sums; None where it holds none.
            number: which result.
            saturates: whether overflow gives the largest finite number.
        """
        out = self.outs[number]
        name = self.writer.fresh(out.original)
        value = self.writer.state(name, expr, out.dtype, out.dims, acc, self.place, saturates)
        return self._named(out, value)

    def same(self, x: Value, number: int = 0) -> Value:
        """State that a result is a value that exists: nothing moves and nothing rounds."""
        out = self.outs[number]
        self.writer.values[out.original] = replace(x, dtype=out.dtype, dims=out.dims)
        return x

    def part(
        self,
        word: str,
        expr: str,
        dtype: str,
        dims: Sequence[str],
        acc: str | None = None,
        order: str = ORDER,
    ) -> Value:
        """State a value inside the node, named after its first result and a word."""
        name = self.writer.fresh(f"{self.out.original}__{word}")
        self.writer.origins[name] = Origin(name, self.operator, self.module, self.place)
        return self.writer.state(name, expr, dtype, dims, acc, self.place, order=order)

    def opaque(self, reads: Iterable[Value], parameters: str = "") -> None:
        """State that the node is known by its name only: all results are equal on equal inputs.

        Args:
            reads: the values that it reads.
            parameters: its other arguments, as a text.
        """
        given = []
        for out in self.outs:
            value = Value(self.writer.fresh(out.original), out.dtype, out.dims)
            self.writer._declare(value, self.place)
            self._named(out, value)
            given.append(value.name)
        names = tuple(x.name for x in reads)
        found = Opaque(self.operator, parameters, names, tuple(given), self.place)
        self.writer.opaque.append(found)

    def mark(self) -> tuple[int, int]:
        """Return how much is written, for `back`."""
        return len(self.writer.statements), len(self.writer.assumed)

    def back(self, mark: tuple[int, int]) -> None:
        """Take back what was written since a mark, and the results that it gave."""
        writer = self.writer
        for name in list(writer.statements)[mark[0] :]:
            del writer.statements[name]
            writer.origins.pop(name, None)
            writer.inputs.pop(name, None)
        for text in list(writer.assumed)[mark[1] :]:
            del writer.assumed[text]
        for out in self.outs:
            writer.values.pop(out.original, None)

    def assume(self, text: str) -> None:
        """Note what the file does not say and the table of operators supplies."""
        self.writer.assumed[text] = None

    def _named(self, out: Out, value: Value) -> Value:
        self.writer.origins[value.name] = Origin(
            out.original, self.operator, self.module, self.place
        )
        self.writer.values[out.original] = value
        return value


def _word(original: str) -> str:
    """Return a name of the text form for any name of a file."""
    word = _NO_WORD.sub("_", original)[:200].strip("_") or "value"
    if word[0].isdigit():
        word = f"v{word}"
    return f"{word}_" if word in RESERVED or iskeyword(word) else word


def exact(value: int | float | Fraction) -> Fraction | float:
    """Return a number of a file exactly; inf, nan and -0.0 stay floats."""
    if isinstance(value, float) and (value != value or abs(value) == float("inf")):
        return value
    if isinstance(value, float) and value == 0 and str(value).startswith("-"):
        return value
    return Fraction(value)
