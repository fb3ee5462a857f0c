"""The text form of a graph: one statement a line.

    x: bf16[M, K]                                     an input
    w: bf16[K, N]
    g: bf16 = matmul(x, w) acc f32 seq                rounds once, at its end
    q: e4m3fn = g / 2 saturate
    return q

What stands inside a statement is exact; the format before `=` says how its result is
rounded (`real`: not at all). Behind the expression may follow `acc FORMAT SCHEDULE` for
its sums, `saturate`, `to_inf` or `to_nan` for overflow, `flush`, and a rounding mode.
Without `return`, the values that nothing reads are the results.

Expressions are parsed with `ast` and walked against a whitelist; nothing is evaluated. Lines are
read in `statement`, their order is found in `dependencies`, their nodes are made in `building`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from lastbit.building import MissingError, ScheduleOf, build
from lastbit.dependencies import nearest, ordered, uses
from lastbit.errors import InputError, LastbitError, Place, Problem, did_you_mean
from lastbit.graph import Graph, Node
from lastbit.statement import Statement, defined_name, parse_statement
from lastbit.syntax import StatementError

MAX_PROBLEMS = 200

_RETURN = re.compile(r"\s*return\b")


@dataclass(frozen=True, slots=True)
class Program:
    """A parsed text: statements in an order in which each reads only earlier ones."""

    statements: tuple[Statement, ...]
    outputs: tuple[str, ...]

    @property
    def symbols(self) -> frozenset[str]:
        """Return the size symbols that the shapes of the inputs and values use."""
        return frozenset(s for st in self.statements for dim in st.dims or () for s in dim.symbols)

    def place(self, name: str) -> Place:
        """Return where the value `name` is defined."""
        return next(st.place for st in self.statements if st.name == name)

    def bind(self, sizes: Mapping[str, int]) -> Graph:
        """Return the graph at the given sizes.

        Raises:
            InputError: shapes that do not fit, each with its line.
        """
        return Graph(self.nodes(sizes, lambda name, node: node), self.outputs)

    def nodes(
        self,
        sizes: Mapping[str, int],
        reference: Callable[[str, Node], Node],
        schedule_of: ScheduleOf | None = None,
    ) -> dict[str, Node]:
        """Return the node of each value at the given sizes.

        Args:
            sizes: a number for each symbol.
            reference: the node by which other statements read a value, from name and node.
            schedule_of: the bound schedule of a statement, from its name and its schedule;
                by default that at the given sizes.

        Raises:
            InputError: shapes that do not fit, each with its line.
        """
        nodes, problems = self._build(sizes, reference, schedule_of)
        if problems:
            raise InputError(problems)
        return nodes

    def problems(self, sizes: Mapping[str, int]) -> list[Problem]:
        """Return what does not fit at the given sizes; values that read it are passed over."""
        return self._build(sizes, lambda name, node: node, None)[1]

    def _build(
        self,
        sizes: Mapping[str, int],
        reference: Callable[[str, Node], Node],
        schedule_of: ScheduleOf | None,
    ) -> tuple[dict[str, Node], list[Problem]]:
        nodes: dict[str, Node] = {}
        values: dict[str, Node] = {}
        problems = []
        for st in self.statements:
            try:
                nodes[st.name] = build(st, values, sizes, schedule_of)
                values[st.name] = reference(st.name, nodes[st.name])
            except StatementError as fault:
                problems.append(st.problem(fault.message, fault.remedy, fault.column))
            except MissingError:
                continue
            except InputError as error:
                problems += [st.problem(p.message, p.remedy) for p in error.problems]
            except LastbitError as error:
                problems.append(st.problem(str(error)))
        return nodes, problems


@dataclass(frozen=True, slots=True)
class Reading:
    """What a text says, as far as it can be understood.

    Attributes:
        program: the statements that are sound; all of them if there are no problems.
        problems: everything that is wrong, in the order of the lines.
        names: the values that the lines define, also those whose lines are wrong.
    """

    program: Program
    problems: tuple[Problem, ...]
    names: frozenset[str]


def parse_program(
    text: str, file: str = "", first_line: int = 1, symbols: Iterable[str] | None = None
) -> Program:
    """Parse the text form.

    Args:
        text: the statements.
        file: the file's name, for messages.
        first_line: the number of the first line in that file.
        symbols: the size symbols that exist; None allows any.

    Raises:
        InputError: every problem of the text, with lines and columns.
    """
    reading = read_program(text, file, first_line, symbols)
    if reading.problems:
        raise InputError(reading.problems)
    return reading.program


def read_program(
    text: str,
    file: str = "",
    first_line: int = 1,
    symbols: Iterable[str] | None = None,
    lines: Sequence[int] = (),
) -> Reading:
    """Parse the text form and keep what is sound beside the problems.

    Args:
        text: the statements.
        file: the file's name, for messages.
        first_line: the number of the first line in that file.
        symbols: the size symbols that exist; None allows any.
        lines: the number of each line, where they do not simply follow `first_line`.
    """
    known = None if symbols is None else frozenset(symbols)
    texts = text.split("\n")
    numbers = lines or range(first_line, first_line + len(texts))
    reader = _Reader(known)
    for number, raw in zip(numbers, texts, strict=True):
        line = raw.split("#", 1)[0].rstrip()
        place = Place(file, number, len(line) - len(line.lstrip()) + 1, raw)
        if not line.strip():
            continue
        if len(reader.problems) >= MAX_PROBLEMS:
            reader.problems.append(Problem(f"more than {MAX_PROBLEMS} problems", "", place))
            break
        reader.read(line, place)
    return reader.reading(Place(file, numbers[0]))


class _Reader:
    """Collects the statements of a text, its results, and what is wrong."""

    def __init__(self, symbols: frozenset[str] | None) -> None:
        self.symbols = symbols
        self.problems: list[Problem] = []
        self.statements: dict[str, Statement] = {}
        self.broken: set[str] = set()
        self.outputs: list[tuple[str, Place]] = []

    def read(self, line: str, place: Place) -> None:
        """Read one line, without its comment; nothing is raised."""
        if _RETURN.match(line):
            listed = line.strip()[len("return") :]
            self.outputs += [(name.strip(), place) for name in listed.split(",")]
            return
        try:
            st = parse_statement(line, place)
            self._check_symbols(st)
        except StatementError as fault:
            column = place.column + fault.column
            place = replace(place, column=column)
            self.problems.append(Problem(fault.message, fault.remedy, place))
            name = defined_name(line)
            self.broken.update([name] if name else [])
            return
        first = self.statements.setdefault(st.name, st)
        if first is not st:
            message, remedy = f"`{st.name}` is defined twice", "Line {} defines it already."
            self.problems.append(Problem(message, remedy.format(first.place.line), place))

    def _check_symbols(self, st: Statement) -> None:
        known = self.symbols
        for symbol in (symbol for dim in st.dims or () for symbol in sorted(dim.symbols)):
            if known is not None and symbol not in known:
                raise StatementError(
                    f"the size symbol {symbol!r} is not declared",
                    did_you_mean(symbol, known) if known else "Add it to `symbols`.",
                )

    def reading(self, start: Place) -> Reading:
        """Return what was read, with the problems of the names among those of the lines.

        Args:
            start: the place of an empty text.
        """
        names = frozenset(self.broken | self.statements.keys())
        used = {}
        for st in self.statements.values():
            few = len(self.problems) < MAX_PROBLEMS
            used[st.name] = tuple(uses(st, names, self.problems)) if few else ()
        for name, place in self.outputs:
            if name not in names:
                message = f"`{name}` is not defined"
                self.problems.append(Problem(message, nearest(name, names), place))
        statements = ordered(self.statements, used, self.problems)
        if not names and not self.problems:
            remedy = "Write one value a line, such as `x: bf16[M, K]`."
            self.problems.append(Problem("the graph is empty", remedy, start))
        read = {name for many in used.values() for name in many}
        unread = tuple(st.name for st in statements if st.expr is not None and st.name not in read)
        outputs = tuple(name for name, _ in self.outputs if name in self.statements)
        found = dict.fromkeys(self.problems)
        return Reading(
            Program(tuple(statements), outputs or unread),
            tuple(sorted(found, key=lambda p: (p.place.line, p.place.column))),
            names,
        )
