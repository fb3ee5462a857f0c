"""One line of the text form: an input, or a named value with its format and its expression."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from keyword import iskeyword

from lastbit.errors import LastbitError, Place, Problem
from lastbit.expression import Expression, parse_expression
from lastbit.ops import NAMED_REALS, SPECIALS
from lastbit.rounding import Rounding
from lastbit.schedule import Schedule
from lastbit.syntax import MAX_WORD, TAIL_WORDS, StatementError, format_named, syntax_tree
from lastbit.tail import parse_tail, split_tail

RESERVED = {*TAIL_WORDS, *NAMED_REALS, *SPECIALS, "return", "real"}
MAX_LINE = 10_000
MAX_SIZE = 2**48  # of an axis
STATES_SIZES = re.compile(r" at \w+=\d+")  # an error that names its sizes itself

_NAME = re.compile(r"\s*(\w+)\s*:")
_TYPE = re.compile(r"(?P<format>\w+)\s*(?:\[(?P<dims>.*)\])?$")


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


def parse_statement(line: str, place: Place) -> Statement:
    """Return the statement of a line.

    Args:
        line: the text without its comment.
        place: where it is; the column is that of its first word.

    Raises:
        StatementError: the line is no statement; names and shapes of values are not looked at.
    """
    _check_characters(line)
    match = _NAME.match(line)
    end = line.find("=")
    stated = line[match.end() : end if end >= 0 else None] if match else ""
    kind = _TYPE.match(stated.strip())
    if not match or not kind or line[end + 1 : end + 2] == "=":
        raise StatementError(
            "not a statement",
            "Write `name: format[shape]` for an input or `name: format = expression`.",
        )
    name = match[1]
    _check_name(name)
    column = match.end() + len(stated) - len(stated.lstrip()) - place.column + 1
    dims = None if kind["dims"] is None else _dims(kind["dims"], column + kind.start("dims"))
    if end < 0:
        if dims is None:
            raise StatementError(
                f"the input `{name}` has no shape", "Write `x: bf16[M, K]`.", column
            )
        rounding = Rounding.of(format_named(kind["format"], column))
        return Statement(name, rounding, dims, None, None, None, place)
    offset = len(line) - len(line[end + 1 :].lstrip())
    expr, words = split_tail(line[offset:])
    fmt = None if kind["format"] == "real" else format_named(kind["format"], column)
    tail = parse_tail(words, offset + len(expr) - place.column + 1)
    syntax_tree(expr, offset - place.column + 1)
    value = None if fmt is None else tail.rounding(fmt)
    at = replace(place, column=offset + 1)
    return Statement(name, value, dims, expr.strip(), tail.acc, tail.schedule, at)


def defined_name(line: str) -> str | None:
    """Return the name that a line defines, also where the rest of the line is wrong."""
    match = _NAME.match(line)
    return match[1] if match else None


def _check_characters(line: str) -> None:
    if len(line) > MAX_LINE:
        raise StatementError(
            f"the line has {len(line)} characters", f"At most {MAX_LINE} are read."
        )
    strange = next((char for char in line if not char.isprintable() and char != "\t"), None)
    if strange is not None:
        raise StatementError(
            f"the line holds the character U+{ord(strange):04X}", "Only printable ones may stand."
        )


def _check_name(name: str) -> None:
    if len(name) > MAX_WORD:
        raise StatementError(f"a name has {len(name)} characters", f"At most {MAX_WORD} are read.")
    if not name.isidentifier() or name in RESERVED or iskeyword(name):
        raise StatementError(f"{name!r} cannot name a value", "It is a word of the language.")


def _dims(text: str, column: int) -> tuple[Expression, ...]:
    try:
        return tuple(parse_expression(part) for part in _split_commas(text) if part.strip())
    except LastbitError as error:
        raise StatementError(str(error).rstrip("."), column=column) from None


def _split_commas(text: str) -> Iterator[str]:
    depth = start = 0
    for i, char in enumerate(text):
        depth += (char in "([") - (char in ")]")
        if char == "," and depth == 0:
            yield text[start:i]
            start = i + 1
    yield text[start:]
