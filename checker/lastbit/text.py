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

Expressions are parsed with `ast` and walked against a whitelist; nothing is evaluated.
"""

from __future__ import annotations

import ast
import re
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import lru_cache
from keyword import iskeyword

from lastbit.errors import InputError, LastbitError, Place, Problem, did_you_mean
from lastbit.expression import Expression, parse_expression
from lastbit.formats import Format, format_of
from lastbit.graph import (
    Const,
    Graph,
    Input,
    Node,
    Round,
    apply,
    const,
    native_rounding,
    take,
)
from lastbit.ops import (
    COMPOSITES,
    ELEMENTWISE,
    FUNCTION,
    NAMED_REALS,
    OPERATORS,
    SPECIALS,
    Call,
    leaf_constant,
)
from lastbit.rounding import Mode, Overflow, Rounding, Subnormals
from lastbit.schedule import Schedule, bind, parse_schedule

OVERFLOW_WORDS: dict[str, Overflow] = {"saturate": "saturate", "to_inf": "inf", "to_nan": "nan"}
MODES = tuple(mode.value for mode in Mode)
TAIL_WORDS = {"acc", "flush", *OVERFLOW_WORDS, *MODES}
RESERVED = {*TAIL_WORDS, *NAMED_REALS, *SPECIALS, "return", "real"}
MAX_LINE = 10_000
MAX_WORD = 400  # characters of a name or a number
MAX_DEPTH = 250  # of nested parts of an expression
MAX_SIZE = 2**48  # of an axis
MAX_PROBLEMS = 200

_BINARY: dict[type[ast.operator], str] = {
    ast.Add: "add",
    ast.Sub: "sub",
    ast.Mult: "mul",
    ast.Div: "div",
}
_COMPARE: dict[type[ast.cmpop], str] = {ast.Lt: "less", ast.LtE: "less_equal", ast.Eq: "equal"}
_NAME = re.compile(r"\s*(\w+)\s*:")
_LONG = re.compile(rf"\w{{{MAX_WORD + 1},}}")
_TYPE = re.compile(r"(?P<format>\w+)\s*(?:\[(?P<dims>.*)\])?$")
_TAIL = re.compile(rf"(?<=\s)(?:{'|'.join(sorted(TAIL_WORDS))})\b")
_WORD = re.compile(r"\s*(\w+)")
_DIGIT = re.compile(r"[0._]*[1-9]")


@dataclass(frozen=True, slots=True)
class Statement:
    """One line: an input (no `expr`), or a value.

    Attributes:
        name: the name of the value.
        rounding: how the result is rounded; None for `real`. For an input, its format.
        dims: the shape that the line states, or None.
        expr: the text of the expression, or None for an input.
        acc: the rounding of the additions of its sums, or None for exact sums.
        schedule: the tree of its sums.
        place: where the line is; the column is that of the expression.
    """

    name: str
    rounding: Rounding | None
    dims: tuple[Expression, ...] | None
    expr: str | None
    acc: Rounding | None
    schedule: Schedule | None
    place: Place

    def problem(self, message: str, remedy: str = "", column: int = 0) -> Problem:
        """Return a problem at this line, `column` characters into the expression."""
        return Problem(message, remedy, replace(self.place, column=self.place.column + column))


class _FaultError(Exception):
    """A problem found while reading one line."""

    def __init__(self, message: str, remedy: str = "", column: int = 0) -> None:
        super().__init__(message)
        self.message, self.remedy, self.column = message, remedy, column


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
        schedule_of: Callable[[str, Schedule], Schedule] | None = None,
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
        schedule_of: Callable[[str, Schedule], Schedule] | None,
    ) -> tuple[dict[str, Node], list[Problem]]:
        nodes: dict[str, Node] = {}
        values: dict[str, Node] = {}
        problems = []
        for st in self.statements:
            try:
                nodes[st.name] = _Builder(st, values, sizes, schedule_of).build()
                values[st.name] = reference(st.name, nodes[st.name])
            except _FaultError as fault:
                problems.append(st.problem(fault.message, fault.remedy, fault.column))
            except _MissingError:
                continue
            except InputError as error:
                problems += [st.problem(p.message, p.remedy) for p in error.problems]
            except LastbitError as error:
                problems.append(st.problem(str(error)))
        return nodes, problems


class _MissingError(Exception):
    """A value is missing because its own line was wrong; that problem is reported."""


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
    problems: list[Problem] = []
    statements: dict[str, Statement] = {}
    broken: set[str] = set()
    outputs: list[tuple[str, Place]] = []
    known = None if symbols is None else frozenset(symbols)
    texts = text.split("\n")
    numbers = lines or range(first_line, first_line + len(texts))
    for number, raw in zip(numbers, texts, strict=True):
        line = raw.split("#", 1)[0].rstrip()
        place = Place(file, number, len(line) - len(line.lstrip()) + 1, raw)
        if not line.strip():
            continue
        if len(problems) >= MAX_PROBLEMS:
            problems.append(Problem(f"more than {MAX_PROBLEMS} problems", "", place))
            break
        try:
            if re.match(r"\s*return\b", line):
                listed = line.strip()[len("return") :]
                outputs += [(name.strip(), place) for name in listed.split(",")]
                continue
            st = _parse_line(line, place)
            _check_symbols(st, known)
        except _FaultError as fault:
            column = place.column + fault.column
            problems.append(Problem(fault.message, fault.remedy, replace(place, column=column)))
            match = _NAME.match(line)
            broken.update([match[1]] if match else [])
            continue
        if st.name in statements:
            first = statements[st.name].place.line
            problems.append(
                Problem(f"`{st.name}` is defined twice", f"Line {first} defines it already.", place)
            )
            continue
        statements[st.name] = st
    names = broken | statements.keys()
    uses = {}
    for st in statements.values():
        few = len(problems) < MAX_PROBLEMS
        uses[st.name] = tuple(_uses(st, names, problems)) if few else ()
    for name, place in outputs:
        if name not in names:
            problems.append(Problem(f"`{name}` is not defined", _nearest(name, names), place))
    ordered = _order(statements, uses, problems)
    if not names and not problems:
        problems.append(Problem("the graph is empty", "", Place(file, numbers[0])))
    read = {name for used in uses.values() for name in used}
    free = tuple(st.name for st in ordered if st.name not in read and st.expr is not None)
    return Reading(
        Program(tuple(ordered), tuple(name for name, _ in outputs if name in statements) or free),
        tuple(sorted(dict.fromkeys(problems), key=lambda p: (p.place.line, p.place.column))),
        frozenset(names),
    )


def _nearest(name: str, names: Iterable[str]) -> str:
    allowed = tuple(names)
    return did_you_mean(name, allowed) if allowed else ""


def _parse_line(line: str, place: Place) -> Statement:
    if len(line) > MAX_LINE:
        raise _FaultError(f"the line has {len(line)} characters", f"At most {MAX_LINE} are read.")
    strange = next((char for char in line if not char.isprintable() and char != "\t"), None)
    if strange is not None:
        raise _FaultError(
            f"the line holds the character U+{ord(strange):04X}", "Only printable ones may stand."
        )
    match = _NAME.match(line)
    end = line.find("=")
    stated = line[match.end() : end if end >= 0 else None] if match else ""
    kind = _TYPE.match(stated.strip())
    if not match or not kind or line[end + 1 : end + 2] == "=":
        raise _FaultError(
            "not a statement",
            "Write `name: format[shape]` for an input or `name: format = expression`.",
        )
    name = match[1]
    if len(name) > MAX_WORD:
        raise _FaultError(f"a name has {len(name)} characters", f"At most {MAX_WORD} are read.")
    if not name.isidentifier() or name in RESERVED or iskeyword(name):
        raise _FaultError(f"{name!r} cannot name a value", "It is a word of the language.")
    column = match.end() + len(stated) - len(stated.lstrip()) - place.column + 1
    dims = None if kind["dims"] is None else _dims(kind["dims"], column + kind.start("dims"))
    if end < 0:
        if dims is None:
            raise _FaultError(f"the input `{name}` has no shape", "Write `x: bf16[M, K]`.", column)
        rounding = Rounding.of(_format(kind["format"], column))
        return Statement(name, rounding, dims, None, None, None, place)
    offset = len(line) - len(line[end + 1 :].lstrip())
    expr, tail = _split_tail(line[offset:])
    fmt = None if kind["format"] == "real" else _format(kind["format"], column)
    rounding_of, acc, schedule = _parse_tail(tail, offset + len(expr) - place.column + 1)
    at = replace(place, column=offset + 1)
    _expression(expr, offset - place.column + 1)
    return Statement(name, rounding_of(fmt), dims, expr.strip(), acc, schedule, at)


def _dims(text: str, column: int) -> tuple[Expression, ...]:
    try:
        return tuple(parse_expression(part) for part in _split_commas(text) if part.strip())
    except LastbitError as error:
        raise _FaultError(str(error).rstrip("."), column=column) from None


def _split_commas(text: str) -> Iterator[str]:
    depth = start = 0
    for i, char in enumerate(text):
        depth += (char in "([") - (char in ")]")
        if char == "," and depth == 0:
            yield text[start:i]
            start = i + 1
    yield text[start:]


def _format(name: str, column: int = 0) -> Format:
    try:
        return format_of(name)
    except LastbitError as error:
        raise _FaultError(str(error).rstrip("."), column=column) from None


def _split_tail(expr: str) -> tuple[str, str]:
    """Split `matmul(a, b) acc f32 seq saturate` where its first tail word stands."""
    depth = 0
    starts = {match.start() for match in _TAIL.finditer(expr)}
    for i, char in enumerate(expr):
        depth += (char in "([") - (char in ")]")
        if depth == 0 and i in starts:
            return expr[:i], expr[i:]
    return expr, ""


def _parse_tail(
    tail: str, column: int
) -> tuple[Callable[[Format | None], Rounding | None], Rounding | None, Schedule | None]:
    """Read `acc FORMAT SCHEDULE` and the words of the rounding.

    Returns:
        a function from the format to the rounding, the rounding of sums, and their schedule.
    """
    mode = "rne"
    overflow: Overflow | None = None
    subnormals: Subnormals = "keep"
    acc: Rounding | None = None
    schedule: Schedule | None = None
    position = 0
    while match := _WORD.match(tail, position):
        word, position = match[1], match.end()
        if word == "acc":
            match = _WORD.match(tail, position)
            if not match:
                raise _FaultError("`acc` needs a format", "Write `acc f32 seq`.", column + position)
            acc = Rounding.of(_format(match[1], column + match.start(1)))
            schedule, position = _read_schedule(tail, match.end(), column)
        elif word in OVERFLOW_WORDS:
            overflow = OVERFLOW_WORDS[word]
        elif word == "flush":
            subnormals = "flush"
        elif word in MODES:
            mode = word
        else:
            raise _FaultError(
                f"unexpected {word!r} behind the expression",
                did_you_mean(word, TAIL_WORDS),
                column + match.start(1),
            )
    if tail[position:].strip():
        raise _FaultError(f"unexpected {tail[position:].strip()!r}", "", column + position)

    def rounding(fmt: Format | None) -> Rounding | None:
        if fmt is None:
            return None
        try:
            return Rounding.of(fmt, mode=mode, overflow=overflow, subnormals=subnormals)
        except LastbitError as error:
            raise _FaultError(str(error).rstrip("."), column=column) from None

    return rounding, acc, schedule


def _read_schedule(tail: str, position: int, column: int) -> tuple[Schedule, int]:
    match = _WORD.match(tail, position)
    if not match:
        raise _FaultError("`acc` needs a schedule", "Write `acc f32 seq`.", column + position)
    end = match.end()
    if tail[end : end + 1] == "(":
        depth = 0
        for i in range(end, len(tail)):
            depth += (tail[i] == "(") - (tail[i] == ")")
            if depth == 0:
                end = i + 1
                break
        else:
            raise _FaultError("the schedule's parenthesis is not closed", "", column + end)
    try:
        return parse_schedule(tail[match.start(1) : end]), end
    except LastbitError as error:
        raise _FaultError(str(error).rstrip("."), column=column + match.start(1)) from None


def _expression(text: str, column: int = 0) -> ast.expr:
    """Return the syntax tree of an expression; the caller must not change it."""
    long = _LONG.search(text)
    if long:
        reason = f"a word has {len(long[0])} characters"
        raise _FaultError(reason, f"At most {MAX_WORD} are read.", column + long.start())
    try:
        tree = _syntax(text.strip())
    except SyntaxError as error:
        at = max(error.offset or 1, 1) - 1
        word = _WORD.match(text.strip()[at:])
        near = did_you_mean(word[1], TAIL_WORDS) if word else ""
        remedy = near if near.startswith("Did") else ""
        raise _FaultError(f"cannot read the expression: {error.msg}", remedy, column + at) from None
    except (ValueError, RecursionError, MemoryError):
        tree = None
    if tree is None or (len(text) > MAX_DEPTH and _depth(tree) > MAX_DEPTH):
        reason = "the expression is nested too deeply"
        raise _FaultError(reason, f"At most {MAX_DEPTH} levels are read; name parts of it.", column)
    return tree


@lru_cache(maxsize=4096)
def _syntax(text: str) -> ast.expr:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # what Python thinks of a literal is no matter here
        return ast.parse(text, mode="eval").body


def _depth(tree: ast.AST) -> int:
    level, depth = [tree], 0
    while level:
        level = [child for node in level for child in ast.iter_child_nodes(node)]
        depth += 1
    return depth


def _check_symbols(st: Statement, known: frozenset[str] | None) -> None:
    for dim in st.dims or ():
        for symbol in sorted(dim.symbols):
            if known is not None and symbol not in known:
                raise _FaultError(
                    f"the size symbol {symbol!r} is not declared",
                    did_you_mean(symbol, known) if known else "Add it to `symbols`.",
                )


def _uses(st: Statement, names: Set[str], problems: list[Problem]) -> Iterator[str]:
    """Yield the values that a statement reads; collect what does not exist."""
    if st.expr is None:
        return
    skip: set[int] = set()
    for node in ast.walk(_expression(st.expr)):
        if id(node) in skip:
            continue
        if isinstance(node, ast.Call):
            name = ast.get_source_segment(st.expr, node.func) or ""
            skip.add(id(node.func))
            if name not in OPERATORS and name != "opaque":
                problems.append(
                    st.problem(
                        f"unknown operator {name!r}",
                        did_you_mean(name, OPERATORS),
                        node.col_offset,
                    )
                )
            words = node.args[1:] if name == "round" else []
            integers = name in COMPOSITES and COMPOSITES[name].integers
            sizes = node.args[1:] if integers else [k.value for k in node.keywords]
            skip |= {id(inner) for word in (*words, *sizes) for inner in ast.walk(word)}
        elif isinstance(node, ast.Subscript):
            skip |= {id(inner) for inner in ast.walk(node.slice)}
        elif isinstance(node, ast.Name) and leaf_constant(node.id) is None:
            if node.id in names:
                yield node.id
            else:
                problems.append(
                    st.problem(
                        f"`{node.id}` is not defined",
                        _nearest(node.id, names),
                        node.col_offset,
                    )
                )


def _order(
    statements: Mapping[str, Statement],
    uses: Mapping[str, tuple[str, ...]],
    problems: list[Problem],
) -> list[Statement]:
    """Return the statements so that each reads only earlier ones; report cycles."""
    state: dict[str, int] = {}
    out: list[Statement] = []
    for root in statements:
        path: list[str] = []
        stack = [(root, iter(uses[root]))] if root not in state else []
        if stack:
            state[root] = 1
            path.append(root)
        while stack:
            name, rest = stack[-1]
            step = next((u for u in rest if u in statements and state.get(u) != 2), None)
            if step is None:
                stack.pop()
                path.pop()
                state[name] = 2
                out.append(statements[name])
            elif state.get(step) == 1:
                names = [*path[path.index(step) :], step]
                loop = " -> ".join(names if len(names) < 12 else [*names[:5], "...", *names[-5:]])
                problems.append(
                    statements[name].problem(
                        f"`{step}` depends on itself: {loop}",
                        "A value may only read values that do not need it.",
                    )
                )
            else:
                state[step] = 1
                path.append(step)
                stack.append((step, iter(uses[step])))
    return out


class _Builder:
    """Turns one statement into a node, at given sizes."""

    def __init__(
        self,
        st: Statement,
        values: Mapping[str, Node],
        sizes: Mapping[str, int],
        schedule_of: Callable[[str, Schedule], Schedule] | None,
    ) -> None:
        self.st, self.values, self.sizes = st, values, sizes
        self.schedule = st.schedule
        if st.schedule is not None:
            self.schedule = (
                schedule_of(st.name, st.schedule) if schedule_of else bind(st.schedule, sizes)
            )

    def build(self) -> Node:
        st = self.st
        shape = None if st.dims is None else tuple(self._size(dim) for dim in st.dims)
        if st.expr is None:
            assert st.rounding is not None
            assert shape is not None
            return Input(st.name, st.rounding.format, shape=shape)
        node = self._node(_expression(st.expr))
        if shape is not None and node.shape != shape:
            raise _FaultError(f"the shape is {list(node.shape)}, not the stated {list(shape)}")
        if st.rounding is None or native_rounding(node) == st.rounding:
            return node
        return Round(node, st.rounding)

    def _size(self, dim: Expression) -> int:
        size = dim.evaluate(self.sizes)
        if not 0 <= size <= MAX_SIZE:
            raise _FaultError(f"the size {dim} is {size}", f"A size is from 0 to {MAX_SIZE}.")
        return size

    def _node(self, tree: ast.expr) -> Node:
        match tree:
            case ast.Constant():
                return const(self._number(tree))
            case ast.Name(id=name):
                leaf = leaf_constant(name)
                if leaf is not None:
                    return leaf
                if name not in self.values:
                    raise _MissingError
                return self.values[name]
            case ast.UnaryOp(op=ast.USub(), operand=ast.Constant() as operand):
                value = self._number(operand)
                return const(-value)
            case ast.UnaryOp(op=ast.USub()):
                return apply("neg", self._node(tree.operand))
            case ast.BinOp(op=ast.Pow(), right=ast.Constant(value=int(power))) if 1 <= power <= 8:
                base = self._node(tree.left)
                out = base
                for _ in range(power - 1):
                    out = apply("mul", out, base)
                return out
            case ast.BinOp() if type(tree.op) in _BINARY:
                left, right = self._node(tree.left), self._node(tree.right)
                if type(tree.op) is ast.Div and _is_number(left) and _is_number(right):
                    return self._ratio(left, right, tree)
                return apply(_BINARY[type(tree.op)], left, right)
            case ast.Compare(ops=[op], comparators=[right]) if type(op) in _COMPARE:
                return apply(_COMPARE[type(op)], self._node(tree.left), self._node(right))
            case ast.Subscript():
                return self._slice(tree)
            case ast.Call(func=ast.Name(id=name)):
                return self._call(name, tree)
        raise _FaultError(
            f"`{self._text(tree)}` is not part of the language",
            "Use names, numbers, + - * /, comparisons, slices and the operators of `lastbit ops`.",
            tree.col_offset,
        )

    def _number(self, tree: ast.Constant) -> Fraction:
        """Return a literal exactly as it is written, not as a float."""
        text = ast.get_source_segment(self.st.expr or "", tree) or repr(tree.value)
        try:
            if isinstance(tree.value, str):
                return Fraction(float.fromhex(tree.value))
            if isinstance(tree.value, bool) or not isinstance(tree.value, int | float):
                raise ValueError
            size = abs(tree.value)
            if size == float("inf") or (size < 1e-300 and _DIGIT.match(text)):
                raise ValueError  # too large or too small to write out
            return Fraction(text.replace("_", ""))
        except (ValueError, OverflowError):
            raise _FaultError(
                f"{text} is not a number", "Write 3, 0.5, 1e-6 or '0x1.8p+3'.", tree.col_offset
            ) from None

    def _ratio(self, left: Node, right: Node, tree: ast.expr) -> Node:
        assert isinstance(left, Const)
        assert isinstance(right, Const)
        if right.value == 0:
            raise _FaultError("a constant is divided by 0", "", tree.col_offset)
        return const(Fraction(left.value) / Fraction(right.value))

    def _slice(self, tree: ast.Subscript) -> Node:
        node = self._node(tree.value)
        parts = tree.slice.elts if isinstance(tree.slice, ast.Tuple) else [tree.slice]
        if len(parts) > len(node.shape):
            raise _FaultError(
                f"{len(parts)} slices for {len(node.shape)} axes", "", tree.col_offset
            )
        for axis, part in enumerate(parts):
            if not isinstance(part, ast.Slice):
                raise _FaultError("an axis is indexed by a single number", "Write a slice `i:j`.")
            size = node.shape[axis]
            step = 1 if part.step is None else self._integer(part.step)
            if step == 0:
                raise _FaultError("a slice has step 0", "", part.col_offset)
            bounds = slice(
                None if part.lower is None else self._integer(part.lower),
                None if part.upper is None else self._integer(part.upper),
                step,
            )
            for bound in (bounds.start, bounds.stop):
                if bound is not None and not -size <= bound <= size:
                    raise _FaultError(
                        f"the slice bound {bound} is outside of axis {axis} with {size} elements"
                    )
            node = take(node, axis, *bounds.indices(size))
        return node

    def _integer(self, tree: ast.expr) -> int:
        value = parse_expression(self._text(tree)).evaluate(self.sizes)
        if abs(value) > MAX_SIZE:
            raise _FaultError(f"{value} is too large", f"At most {MAX_SIZE}.", tree.col_offset)
        return value

    def _text(self, tree: ast.expr) -> str:
        return ast.get_source_segment(self.st.expr or "", tree) or ""

    def _call(self, name: str, tree: ast.Call) -> Node:
        if name == "round":
            return self._round(tree)
        if name == "opaque":
            return self._opaque(tree)
        axis = -1
        for keyword in tree.keywords:
            if keyword.arg != "axis":
                raise _FaultError(f"{name} has no argument {keyword.arg!r}", "", tree.col_offset)
            axis = self._integer(keyword.value)
        if name in ELEMENTWISE:
            self._arity(name, tree, ELEMENTWISE[name][0])
            return apply(FUNCTION.get(name, name), *(self._node(arg) for arg in tree.args))
        if name not in COMPOSITES:
            raise _MissingError
        op = COMPOSITES[name]
        args = tree.args[: op.arity] if op.integers else tree.args
        self._arity(name, tree, op.arity, len(args))
        xs = tuple(self._node(arg) for arg in args)
        axed = xs if op.arity is None else xs[:1]  # what else there is broadcasts
        for x in axed if "axis" in op.meaning else ():
            if not -len(x.shape) <= axis < max(len(x.shape), 1):
                raise _FaultError(
                    f"axis {axis} does not exist in {list(x.shape)}", "", tree.col_offset
                )
        sizes = tuple(self._integer(arg) for arg in tree.args[len(args) :])
        if sizes and min(sizes) < 0:
            raise _FaultError(f"{name} is given {min(sizes)}", "Give each number.", tree.col_offset)
        return op.build(Call(xs, sizes, axis, self.schedule, self.st.acc))

    def _arity(self, name: str, tree: ast.Call, want: int | None, given: int | None = None) -> None:
        given = len(tree.args) if given is None else given
        if given != want and not (want is None and given):
            raise _FaultError(
                f"{name} takes {'at least 1' if want is None else want} values, given {given}",
                "",
                tree.col_offset,
            )

    def _round(self, tree: ast.Call) -> Node:
        words = [arg.id for arg in tree.args[1:] if isinstance(arg, ast.Name)]
        if not words or len(words) != len(tree.args) - 1:
            raise _FaultError("round needs a format", "Write `round(x, bf16)`.", tree.col_offset)
        rounding, _, _ = _parse_tail(" ".join(words[1:]), tree.col_offset)
        out = rounding(_format(words[0], tree.col_offset))
        assert out is not None
        return Round(self._node(tree.args[0]), out)

    def _opaque(self, tree: ast.Call) -> Node:
        match tree.args:
            case [ast.Constant(value=str(name)), *rest] if name.isidentifier() and rest:
                return apply(f"opaque:{name}", *(self._node(arg) for arg in rest))
        raise _FaultError("opaque needs a name and values", "Write `opaque('name', x)`.")


def _is_number(node: Node) -> bool:
    return isinstance(node, Const) and isinstance(node.value, Fraction)
