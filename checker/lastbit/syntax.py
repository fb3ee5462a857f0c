"""The syntax of the text form: expressions as trees, formats by name, and what is wrong there.

Expressions are parsed with `ast`; whoever reads the tree compares it with a whitelist, and
nothing is evaluated.
"""

from __future__ import annotations

import ast
import re
import warnings
from functools import lru_cache

from lastbit.errors import LastbitError, did_you_mean
from lastbit.formats import Format, format_of
from lastbit.rounding import Mode, Overflow

OVERFLOW_WORDS: dict[str, Overflow] = {"saturate": "saturate", "to_inf": "inf", "to_nan": "nan"}
MODES = tuple(mode.value for mode in Mode)
TAIL_WORDS = {"acc", "flush", *OVERFLOW_WORDS, *MODES}
MAX_WORD = 400  # characters of a name or a number
MAX_DEPTH = 250  # of nested parts of an expression

_LONG = re.compile(rf"\w{{{MAX_WORD + 1},}}")
_WORD = re.compile(r"\s*(\w+)")
_INNER_TAIL = re.compile(rf"(?<=[\w)\]])\s+({'|'.join(sorted(TAIL_WORDS))})\b")


class StatementError(Exception):
    """What is wrong with one statement; its reader turns it into a problem with a place.

    Attributes:
        message: what is wrong.
        remedy: what to do.
        column: where, in characters behind the column of the statement's place.
    """

    def __init__(self, message: str, remedy: str = "", column: int = 0) -> None:
        super().__init__(message)
        self.message, self.remedy, self.column = message, remedy, column


def format_named(name: str, column: int = 0) -> Format:
    """Return a format by its name or its short name.

    Raises:
        StatementError: there is no such format.
    """
    try:
        return format_of(name)
    except LastbitError as error:
        raise StatementError(str(error).rstrip("."), column=column) from None


def syntax_tree(text: str, column: int = 0) -> ast.expr:
    """Return the syntax tree of an expression, which the caller must not change.

    Raises:
        StatementError: the text is no expression of Python, or one too long or nested too deeply.
    """
    long = _LONG.search(text)
    if long:
        reason = f"a word has {len(long[0])} characters"
        raise StatementError(reason, f"At most {MAX_WORD} are read.", column + long.start())
    try:
        tree = _parsed(text.strip())
    except SyntaxError as error:
        at = max(error.offset or 1, 1) - 1
        word = _WORD.match(text.strip()[at:])
        near = did_you_mean(word[1], TAIL_WORDS) if word else ""
        remedy = near if near.startswith("Did") else ""
        reason = f"cannot read the expression: {error.msg}"
        tail = _INNER_TAIL.search(text)
        if tail:
            reason = f"`{tail[1]}` stands inside an expression"
            remedy = "It belongs at the end of a statement; give this part a statement of its own."
            at = tail.start(1) - (len(text) - len(text.lstrip()))
        raise StatementError(reason, remedy, column + at) from None
    except (ValueError, RecursionError, MemoryError):
        tree = None
    if tree is None or (len(text) > MAX_DEPTH and _depth(tree) > MAX_DEPTH):
        remedy = f"At most {MAX_DEPTH} levels are read; name parts of it."
        raise StatementError("the expression is nested too deeply", remedy, column)
    return tree


@lru_cache(maxsize=4096)
def _parsed(text: str) -> ast.expr:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # what Python thinks of a literal is no matter here
        return ast.parse(text, mode="eval").body


def _depth(tree: ast.AST) -> int:
    level, depth = [tree], 0
    while level:
        level = [child for node in level for child in ast.iter_child_nodes(node)]
        depth += 1
    return depth
