"""The text form of schedules: `split(3, tile=64, inner=fused(16, hopper), outer=seq)`.

The text is parsed with `ast` and compared with a whitelist; nothing is evaluated. A schedule
prints itself (`str`), and `parse_schedule(str(s)) == s`.
"""

from __future__ import annotations

import ast
from collections.abc import Callable
from typing import Any

from lastbit.errors import did_you_mean
from lastbit.explicit_tree import Nested, Tree, tree_of_pairs
from lastbit.expression import parse_expression
from lastbit.levels import (
    AnyOrder,
    Fused,
    Lanes,
    Level,
    Pairwise,
    Parameter,
    Promote,
    Schedule,
    ScheduleError,
    Seq,
    Split,
    Stored,
    Table,
)

# For each class: its parameters in order, and how many of them may lack their name.
_FORMS: dict[type[Level], tuple[tuple[str, ...], int]] = {
    Seq: (("acc",), 0),
    Stored: (("format", "acc"), 1),
    Pairwise: (("leaf", "acc"), 1),
    Lanes: (("n", "inner", "outer", "partials", "acc"), 1),
    Split: (("n", "size", "tile", "deal", "inner", "outer", "partials", "acc"), 1),
    Fused: (("k", "machine", "acc"), 2),
    Promote: (("every", "format", "inner", "acc"), 2),
    Tree: (("pairs", "acc"), 1),
    AnyOrder: (("acc",), 0),
}
_CLASSES = {made.word: made for made in _FORMS}
_NEEDED = {
    "lanes": {"n"},
    "fused": {"k", "machine"},
    "promote": {"every", "format"},
    "stored": {"format"},
}
_GRAMMAR = (
    "seq, pairwise(leaf), lanes(n), split(n), split(size=n), fused(k, machine), "
    "promote(every, format), stored(format), tree(pairs), any_order"
)


def parse_schedule(text: str) -> Schedule:
    """Return the schedule that a text stands for.

    Args:
        text: such as `seq`, `lanes(32, inner=seq, outer=pairwise(1))`, `split(size=32)`,
            `split(max(1, 132 // ceil(M/128)), tile=64)`, `split(table(M, (1, 16), (64, 4)))`,
            `promote(128, f32, inner=fused(32, hopper))` or `tree(((0, 1), 2))`.

    Raises:
        ScheduleError: the text is no schedule; the message says what is allowed.
        ExpressionError: a parameter is no expression that is allowed.
        UnknownFormatError: the format of an accumulator does not exist.
    """
    return _Parser(text).schedule()


class _Parser:
    def __init__(self, text: str) -> None:
        self.text = text
        self.trees: list[Nested] = []

    def error(self, reason: str, remedy: str) -> ScheduleError:
        return ScheduleError(self.text, reason, remedy)

    def schedule(self) -> Schedule:
        try:
            body = ast.parse(self._without_trees().strip(), mode="eval").body
        except (SyntaxError, ValueError, MemoryError, RecursionError):
            raise self.error("this is no schedule", f"Allowed: {_GRAMMAR}.") from None
        return self._level(body)

    def _without_trees(self) -> str:
        """Replace the pairs of each tree by their number; they may be too deep for `ast`."""
        head, *rest = self.text.split("tree(")
        pieces = [head]
        for part in rest:
            nested, end = self._pairs(part)
            pieces.append(f"tree({len(self.trees)}{part[end:]}")
            self.trees.append(nested)
        return "".join(pieces)

    def _pairs(self, part: str) -> tuple[Nested, int]:
        """Return the pairs that a text begins with, and where they end."""
        open_tuples: list[list[Nested]] = []
        i = 0
        while i < len(part):
            start, i = i, i + 1
            value: Nested = None
            if part[start] == "(":
                open_tuples.append([])
            elif part[start].isdecimal():
                while part[i : i + 1].isdecimal():
                    i += 1
                value = int(part[start:i])
            elif part[start] == ")" and open_tuples:
                value = tuple(open_tuples.pop())
            elif not (part[start].isspace() or (part[start] == "," and open_tuples)):
                break
            if value is not None and not open_tuples:
                return value, i
            if value is not None:
                open_tuples[-1].append(value)
        raise self.error("these are no pairs", "Write tree(((0, 1), 2)), or () for zero.")

    def _level(self, node: ast.expr) -> Schedule:
        args: list[ast.expr] = []
        keywords: list[ast.keyword] = []
        match node:
            case ast.Name(id=name):
                pass
            case ast.Call(func=ast.Name(id=name), args=args, keywords=keywords):
                pass
            case _:
                reason = f"{ast.unparse(node)!r} is no schedule"
                raise self.error(reason, f"Allowed: {_GRAMMAR}.")
        if name not in _CLASSES:
            raise self.error(f"{name!r} is no schedule", did_you_mean(name, _CLASSES))
        made = _CLASSES[name]
        names, positional = _FORMS[made]
        given: dict[str, Any] = {}
        for i, arg in enumerate(args):
            if i >= positional:
                remedy = f"Name it: {', '.join(f'{n}=' for n in names[positional:])}."
                raise self.error(f"argument {ast.unparse(arg)!r} of {name} has no name", remedy)
            given[names[i]] = arg
        for keyword in keywords:
            if keyword.arg not in names:
                reason = f"{name} has no parameter {keyword.arg!r}"
                raise self.error(reason, did_you_mean(str(keyword.arg), names))
            if keyword.arg in given:
                raise self.error(f"{name} is given {keyword.arg!r} twice", "Give it once.")
            given[keyword.arg] = keyword.value
        missing = _NEEDED.get(name, set()) - given.keys()
        if missing:
            reason = f"{name} lacks {', '.join(n for n in names if n in missing)}"
            raise self.error(reason, f"Allowed: {_GRAMMAR}.")
        values = {key: _READERS[key](self, value) for key, value in given.items()}
        if made is Tree:
            return self._tree(values)
        return made(**values)

    def _tree(self, values: dict[str, Any]) -> Tree:
        if "pairs" not in values:
            raise self.error("tree lacks its pairs", "Write tree(((0, 1), 2)).")
        return tree_of_pairs(self.trees[values.pop("pairs")], **values)

    def _parameter(self, node: ast.expr) -> Parameter:
        match node:
            case ast.Constant(value=str() as quoted):
                text = quoted
            case ast.Call(func=ast.Name(id="table"), args=args):
                return self._table(args)
            case _:
                text = ast.unparse(node)
        expression = parse_expression(text)
        return expression if expression.symbols else expression.evaluate({})

    def _table(self, args: list[ast.expr]) -> Table:
        match args:
            case [ast.Name(id=by), *rows] if rows:
                pairs = tuple(self._row(row) for row in rows)
                return Table(by, pairs)
        raise self.error("this is no table", "Write table(M, (1, 16), (64, 4)).")

    def _row(self, node: ast.expr) -> tuple[int, int]:
        match node:
            case ast.Tuple(
                elts=[ast.Constant(value=int() as bound), ast.Constant(value=int() as value)]
            ):
                return bound, value
        reason = f"{ast.unparse(node)!r} is no row of a table"
        raise self.error(reason, "Write table(M, (1, 16), (64, 4)).")

    def _word(self, node: ast.expr) -> str:
        match node:
            case ast.Name(id=name) | ast.Constant(value=str() as name):
                return name
            case ast.BinOp(
                left=ast.Name(id=name), op=ast.Div(), right=ast.Constant(value=int() as k)
            ):
                return f"{name}/{k}"
        raise self.error(f"{ast.unparse(node)!r} is no name", "Write a name, such as bf16.")

    def _number(self, node: ast.expr) -> int:
        if isinstance(node, ast.Constant) and isinstance(node.value, int):
            return node.value
        raise self.error("tree lacks its pairs", "Write tree(((0, 1), 2)).")


_READERS: dict[str, Callable[[_Parser, ast.expr], Any]] = {
    **dict.fromkeys(("acc", "partials", "format", "machine", "deal"), _Parser._word),
    **dict.fromkeys(("inner", "outer"), _Parser._level),
    **dict.fromkeys(("n", "size", "tile", "leaf", "every", "k"), _Parser._parameter),
    "pairs": _Parser._number,
}
