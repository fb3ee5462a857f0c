"""What follows the expression of a statement: sums, overflow, subnormals and the mode.

g: bf16 = matmul(x, w) acc f32 split(4) saturate rtz
----------------------------- the tail
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from lastbit.errors import LastbitError, did_you_mean
from lastbit.formats import Format
from lastbit.rounding import Mode, Overflow, Rounding, Subnormals
from lastbit.schedule import Schedule, parse_schedule
from lastbit.syntax import MODES, OVERFLOW_WORDS, TAIL_WORDS, StatementError, format_named

_START = re.compile(rf"(?<=\s)(?:{'|'.join(sorted(TAIL_WORDS))})\b")
_WORD = re.compile(r"\s*(\w+)")


@dataclass(frozen=True, slots=True)
class Tail:
    """The words behind an expression, read.

    Attributes:
        acc: the rounding of the additions of its sums, or None for exact sums.
        schedule: the tree of its sums.
        mode: the rounding mode of its result.
        overflow: what its overflow gives; None for the default of the format.
        subnormals: whether its subnormal results are kept.
        column: where the tail begins.
    """

    acc: Rounding | None
    schedule: Schedule | None
    mode: Mode
    overflow: Overflow | None
    subnormals: Subnormals
    column: int

    def rounding(self, fmt: Format) -> Rounding:
        """Return the rounding of the result to a format.

        Raises:
            StatementError: the format has no such overflow.
        """
        try:
            return Rounding.of(
                fmt, mode=self.mode, overflow=self.overflow, subnormals=self.subnormals
            )
        except LastbitError as error:
            raise StatementError(str(error).rstrip("."), column=self.column) from None


def split_tail(text: str) -> tuple[str, str]:
    """Split `matmul(a, b) acc f32 seq` where the first word of the tail stands."""
    depth = 0
    starts = {match.start() for match in _START.finditer(text)}
    for i, char in enumerate(text):
        depth += (char in "([") - (char in ")]")
        if depth == 0 and i in starts:
            return text[:i], text[i:]
    return text, ""


def parse_tail(text: str, column: int) -> Tail:
    """Read the words behind an expression; of words that exclude each other the last one counts.

    Args:
        text: the words.
        column: where they begin, for messages.

    Raises:
        StatementError: a word, a format or a schedule that does not exist.
    """
    acc: Rounding | None = None
    schedule: Schedule | None = None
    mode = Mode.NEAREST_EVEN
    overflow: Overflow | None = None
    subnormals: Subnormals = "keep"
    position = 0
    while match := _WORD.match(text, position):
        word, position = match[1], match.end()
        if word == "acc":
            match = _WORD.match(text, position)
            if not match:
                raise StatementError(
                    "`acc` needs a format", "Write `acc f32 seq`.", column + position
                )
            acc = Rounding.of(format_named(match[1], column + match.start(1)))
            schedule, position = _read_schedule(text, match.end(), column)
        elif word in OVERFLOW_WORDS:
            overflow = OVERFLOW_WORDS[word]
        elif word == "flush":
            subnormals = "flush"
        elif word in MODES:
            mode = Mode(word)
        else:
            raise StatementError(
                f"unexpected {word!r} behind the expression",
                did_you_mean(word, TAIL_WORDS),
                column + match.start(1),
            )
    if text[position:].strip():
        raise StatementError(f"unexpected {text[position:].strip()!r}", "", column + position)
    return Tail(acc, schedule, mode, overflow, subnormals, column)


def _read_schedule(text: str, position: int, column: int) -> tuple[Schedule, int]:
    """Return the schedule that begins at a position, and where it ends."""
    match = _WORD.match(text, position)
    if not match:
        raise StatementError("`acc` needs a schedule", "Write `acc f32 seq`.", column + position)
    end = match.end()
    if text[end : end + 1] == "(":
        end = _closing(text, end, column)
    try:
        return parse_schedule(text[match.start(1) : end]), end
    except LastbitError as error:
        raise StatementError(str(error).rstrip("."), column=column + match.start(1)) from None


def _closing(text: str, start: int, column: int) -> int:
    """Return the position behind the parenthesis that closes the one at `start`."""
    depth = 0
    for i in range(start, len(text)):
        depth += (text[i] == "(") - (text[i] == ")")
        if depth == 0:
            return i + 1
    raise StatementError("the schedule's parenthesis is not closed", "", column + start)
