"""Write what a function recorded as statements of the text form, and give its values names.

A statement is written for every input, every rounding, every value that the user named (by the
variable it is assigned to), every value that is read more than once, and every result; all else
stands inside the expressions that read it. Values are the same on both sides where they are
computed in the same way, and where they have the same name.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from keyword import iskeyword

from lastbit.building import MissingError, build
from lastbit.errors import InputError, LastbitError, Problem
from lastbit.expression import parse_expression
from lastbit.graph import Node
from lastbit.ops import COMPOSITES
from lastbit.printing import number_text
from lastbit.rounding import Rounding
from lastbit.schedule import Schedule
from lastbit.statement import RESERVED, Statement
from lastbit.syntax import StatementError
from lastbit.text import Program
from lastbit.tracing.op import Op, keywords_of
from lastbit.tracing.sizes import Sizes

MOST_PARTS = 40  # operations in one expression
MOST_NAMED = 100  # values without a rounding that keep their variable; many come of a loop

_INFIX = {"add": ("+", 1), "sub": ("-", 1), "mul": ("*", 2), "div": ("/", 2)}
_COMPARE = {"less": "<", "less_equal": "<=", "equal": "=="}
_UNARY, _POWER, _ATOM = 3, 4, 9
_INTEGER = re.compile(r"\b\d+\b")

Tree = tuple[Rounding | None, Schedule | None]


@dataclass(frozen=True, slots=True)
class Traced:
    """What one function recorded.

    Attributes:
        inputs: of both functions, in order.
        results: by the name of the result.
    """

    inputs: tuple[Op, ...]
    results: Mapping[str, Op]


def programs_of(before: Traced, after: Traced, table: Sizes) -> tuple[Program, Program]:
    """Return the programs of two functions over the same inputs, with matching names."""
    first = _Writer(before, {}, set(), frozenset(before.results))
    names = {key: name for key, name in first.names.items() if name not in before.results}
    second = _Writer(after, names, set(first.names.values()), frozenset(before.results))
    sides = [list(writer.statements()) for writer in (first, second)]
    plain = _plain_sizes([st for side in sides for st in side], table)
    return (
        Program(tuple(_numbered(st, plain) for st in sides[0]), tuple(before.results)),
        Program(tuple(_numbered(st, plain) for st in sides[1]), tuple(after.results)),
    )


def misfits(traced: Traced, table: Sizes, sizes: Mapping[str, int]) -> Iterator[Problem]:
    """Yield what does not fit together at some sizes, each at the place of its operation."""
    values: dict[str, Node] = {}
    for written in _Writer(traced, {}, set(), frozenset(), every=True).statements():
        st = _numbered(written, table.fixed)
        try:
            values[st.name] = build(st, values, sizes)
        except StatementError as fault:
            yield Problem(fault.message, fault.remedy, st.place)
        except MissingError:
            continue
        except InputError as error:
            yield from (Problem(p.message, p.remedy, st.place) for p in error.problems)
        except LastbitError as error:
            yield Problem(str(error).rstrip("."), "", st.place)


def _plain_sizes(statements: Iterable[Statement], table: Sizes) -> Mapping[str, int]:
    """Return the sizes that stay numbers, because a function mentions them as numbers."""
    mentioned = set(table.pinned)
    for st in statements:
        mentioned |= {int(number) for number in _INTEGER.findall(st.expr or "")}
    return {name: number for name, number in table.fixed.items() if number in mentioned}


def _numbered(st: Statement, plain: Mapping[str, int]) -> Statement:
    """Return a statement with some size symbols replaced by their numbers."""

    def number(text: str) -> str:
        for name, size in plain.items():
            text = re.sub(rf"\b{name}\b", str(size), text)
        return text

    dims = st.dims
    if dims is not None:
        dims = tuple(parse_expression(number(dim.text)) for dim in dims)
    return replace(st, expr=None if st.expr is None else number(st.expr), dims=dims)


class _Writer:
    """Writes the statements of one function.

    Args:
        traced: what it recorded.
        known: names of the other side, by key; equal computations get them.
        foreign: all names of the other side, which nothing else gets by accident.
        kept: names that only results get.
        every: whether every operation gets a statement of its own.
    """

    def __init__(
        self,
        traced: Traced,
        known: Mapping[bytes, str],
        foreign: set[str],
        kept: frozenset[str],
        every: bool = False,
    ) -> None:
        self.traced = traced
        self.ops = _ordered([*traced.inputs, *traced.results.values()])
        self.trees: dict[bytes, Tree] = {}
        self.names: dict[bytes, str] = {}
        self.taken: set[str] = set()
        self.aliases: dict[str, bytes] = {}
        written = self._written(every)
        self._name(written, known, foreign, kept)

    def _written(self, every: bool) -> list[bytes]:
        """Return the operations that become statements; note the tree of sums inside each."""
        uses = Counter(arg.key for op in self.ops.values() for arg in op.args)
        results = {op.key for op in self.traced.results.values()}
        written: dict[bytes, None] = {}
        parts: dict[bytes, int] = {}
        trees: dict[bytes, set[Tree]] = {}
        exact = sum(bool(op.label) and op.name not in ("to", "input") for op in self.ops.values())
        for op in self.ops.values():
            if op.name in ("const", "size") and op.key not in results:
                parts[op.key], trees[op.key] = 1, set()
                continue
            own: set[Tree] = {(op.acc, op.schedule)} if holds_sum(op) else set()
            inside = own.union(*(trees[arg.key] for arg in op.args if arg.key not in written))
            if len(inside) > 1:  # one statement has one tree
                for arg in op.args:
                    if trees[arg.key] and arg.key not in written:
                        written[arg.key] = None
                inside = own
            parts[op.key] = 1 + sum(parts[a.key] for a in op.args if a.key not in written)
            trees[op.key] = inside
            self.trees[op.key] = next(iter(inside), (None, None))
            shown = op.label and exact <= MOST_NAMED
            alone = every or op.name in ("input", "to") or shown or op.key in results
            if alone or uses[op.key] > 1 or parts[op.key] > MOST_PARTS:
                written[op.key] = None
        return list(written)

    def _name(
        self,
        written: list[bytes],
        known: Mapping[bytes, str],
        foreign: set[str],
        kept: frozenset[str],
    ) -> None:
        for op in self.traced.inputs:
            self._take(op.key, str(op.value))
        for name, op in self.traced.results.items():
            self.taken.add(name)
            if op.key in self.names:
                self.aliases[name] = op.key
            else:
                self.names[op.key] = name
        for key in written:
            if key in known and key not in self.names and known[key] not in self.taken:
                self._take(key, known[key])
        for key in written:
            if key not in self.names:
                op = self.ops[key]
                avoid = kept if op.label else kept | foreign
                self._take(key, self._fresh(op.label or _base(op), avoid))

    def _take(self, key: bytes, name: str) -> None:
        self.names[key] = name
        self.taken.add(name)

    def _fresh(self, base: str, avoid: Iterable[str]) -> str:
        busy, name, count = self.taken.union(avoid), base, 1
        while name in busy or name in RESERVED or iskeyword(name):
            count += 1
            name = f"{base}_{count}"
        return name

    def statements(self) -> Iterator[Statement]:
        """Yield the statements, each after what it reads."""
        for key, op in self.ops.items():
            if key in self.names:
                yield self._statement(self.names[key], op)
        for name, key in self.aliases.items():
            place = self.ops[key].place
            yield Statement(name, None, None, self.names[key], None, None, place)

    def _statement(self, name: str, op: Op) -> Statement:
        if op.name == "input":
            dims = tuple(parse_expression(word) for word in op.words)
            return Statement(name, op.rounding, dims, None, None, None, op.place)
        acc, schedule = self.trees[op.key]
        expr = self._text(op.args[0]) if op.name == "to" else self._body(op)[0]
        return Statement(name, op.rounding, None, expr, acc, schedule, op.place)

    def _text(self, op: Op, level: int = 0) -> str:
        if op.key in self.names:
            return self.names[op.key]
        text, own = self._body(op)
        return f"({text})" if own < level else text

    def _body(self, op: Op) -> tuple[str, int]:
        args = op.args
        match op.name:
            case "const":
                assert op.value is not None
                text = number_text(op.value)
                return text, 2 if "/" in text else _UNARY if text.startswith("-") else _ATOM
            case "size":
                return f"size({op.words[0]})", _ATOM
            case name if name in _INFIX and any(arg.name != "const" for arg in args):
                sign, level = _INFIX[name]
                left, right = self._text(args[0], level), self._text(args[1], level + 1)
                return f"{left} {sign} {right}", level
            case name if name in _COMPARE:
                return f" {_COMPARE[name]} ".join(self._text(arg, 1) for arg in args), 0
            case "neg" if args[0].name != "const":
                return f"-{self._text(args[0], _ATOM)}", _UNARY
            case "power":
                return f"{self._text(args[0], _ATOM)} ** {op.words[0]}", _POWER
            case "slice":
                return f"{self._text(args[0], _ATOM)}[{', '.join(op.words)}]", _ATOM
        name, _, opaque = op.name.partition(" ")
        parts = [f"'{opaque}'"] if opaque else []
        parts += [self._text(arg) for arg in args]
        parts += [*op.words, *(f"{word}={value}" for word, value in op.keywords)]
        return f"{name}({', '.join(parts)})", _ATOM


def holds_sum(op: Op) -> bool:
    """Return whether the tree of its statement matters to an operation."""
    return op.name in COMPOSITES and "acc" in keywords_of(op.name)


def _ordered(roots: Iterable[Op]) -> dict[bytes, Op]:
    """Return the operations by key, each after what it reads; of equal ones the first named."""
    out: dict[bytes, Op] = {}
    entered: set[bytes] = set()
    stack = [(root, False) for root in reversed(list(roots))]
    while stack:
        op, done = stack.pop()
        if done:
            out[op.key] = op
        elif op.key not in entered:
            entered.add(op.key)
            stack.append((op, True))
            stack.extend((arg, False) for arg in reversed(op.args))
        elif op.label and op.key in out and not out[op.key].label:
            out[op.key] = op
    return out


def _base(op: Op) -> str:
    """Return a name for a value that has none: the operator that makes it."""
    while op.name in ("to", "slice", "reshape", "transpose", "broadcast") and op.args:
        op = op.args[0]
    if op.name == "input":
        return str(op.value)
    return "constant" if op.name == "const" else op.name.rpartition(" ")[2]
