"""Turn statements into nodes: the expression of each, walked against a whitelist."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Mapping
from fractions import Fraction
from functools import partial, reduce

from lastbit.expression import Expression, parse_expression
from lastbit.graph import Const, Input, Node, Round, apply, const, native_rounding, take
from lastbit.ops import COMPOSITES, ELEMENTWISE, FUNCTION, SPECIALS, Call, leaf_constant
from lastbit.schedule import Schedule, bind
from lastbit.statement import MAX_SIZE, Statement
from lastbit.syntax import StatementError, format_named, syntax_tree
from lastbit.tail import parse_tail

ScheduleOf = Callable[[str, Schedule], Schedule]

MAX_POWER = 8  # of `x ** n`, which is written out

_BINARY: dict[type[ast.operator], str] = {
    ast.Add: "add",
    ast.Sub: "sub",
    ast.Mult: "mul",
    ast.Div: "div",
}
_COMPARE: dict[type[ast.cmpop], str] = {ast.Lt: "less", ast.LtE: "less_equal", ast.Eq: "equal"}
_DIGIT = re.compile(r"[0._]*[1-9]")


class MissingError(Exception):
    """A value is missing because its own line was wrong; that problem is reported."""


def build(
    st: Statement,
    values: Mapping[str, Node],
    sizes: Mapping[str, int],
    schedule_of: ScheduleOf | None = None,
) -> Node:
    """Return the node of a statement.

    Args:
        st: the statement.
        values: the nodes by which it reads other values.
        sizes: a number for each symbol.
        schedule_of: the bound schedule of a statement, from its name and its schedule; by default
            that at the given sizes.

    Raises:
        StatementError: the expression holds what is no part of the language, or does not fit.
        MissingError: a value that it reads is not among `values`.
        LastbitError: shapes that do not fit, or a schedule that cannot be bound.
    """
    return _Builder(st, values, sizes, schedule_of).build()


class _Builder:
    def __init__(
        self,
        st: Statement,
        values: Mapping[str, Node],
        sizes: Mapping[str, int],
        schedule_of: ScheduleOf | None,
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
        node = self._node(syntax_tree(st.expr))
        if shape is not None and node.shape != shape:
            raise StatementError(f"the shape is {list(node.shape)}, not the stated {list(shape)}")
        if st.rounding is None or native_rounding(node) == st.rounding:
            return node
        return Round(node, st.rounding)

    def _size(self, dim: Expression) -> int:
        size = dim.evaluate(self.sizes)
        if not 0 <= size <= MAX_SIZE:
            wrong = f"{dim} is {size}" if dim.symbols else f"{dim} cannot be"
            raise StatementError(f"the size {wrong}", f"A size is from 0 to {MAX_SIZE}.")
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
                    raise MissingError
                return self.values[name]
            case ast.UnaryOp(op=ast.USub(), operand=ast.Constant() as operand):
                value = self._number(operand)
                minus_zero = value == 0 and isinstance(operand.value, float)  # `-0.0`, not `-0`
                return const(-0.0 if minus_zero else -value)
            case ast.UnaryOp(op=ast.USub(), operand=ast.Name(id=name)) if name in SPECIALS:
                return const(-SPECIALS[name])
            case ast.UnaryOp(op=ast.USub()):
                return apply("neg", self._node(tree.operand))
            case ast.BinOp(op=ast.Pow(), right=ast.Constant(value=int(n))) if 1 <= n <= MAX_POWER:
                base = self._node(tree.left)
                return reduce(partial(apply, "mul"), [base] * n)
            case ast.BinOp() if type(tree.op) in _BINARY:
                left, right = self._node(tree.left), self._node(tree.right)
                match tree.op, left, right:
                    case ast.Div(), Const(value=Fraction() as a), Const(value=Fraction() as b):
                        return self._ratio(a, b, tree)
                return apply(_BINARY[type(tree.op)], left, right)
            case ast.Compare(ops=[op], comparators=[right]) if type(op) in _COMPARE:
                return apply(_COMPARE[type(op)], self._node(tree.left), self._node(right))
            case ast.Subscript():
                return self._slice(tree)
            case ast.Call(func=ast.Name(id=name)):
                return self._call(name, tree)
        raise StatementError(
            f"`{self._text(tree)}` is not part of the language",
            "Use names, numbers, + - * /, comparisons, slices and operators such as `silu(x)`.",
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
            raise StatementError(
                f"{text} is not a number", "Write 3, 0.5, 1e-6 or '0x1.8p+3'.", tree.col_offset
            ) from None

    def _ratio(self, a: Fraction, b: Fraction, tree: ast.expr) -> Node:
        """Return a quotient of two literals as one constant."""
        if b == 0:
            raise StatementError("a constant is divided by 0", "", tree.col_offset)
        return const(a / b)

    def _slice(self, tree: ast.Subscript) -> Node:
        node = self._node(tree.value)
        parts = tree.slice.elts if isinstance(tree.slice, ast.Tuple) else [tree.slice]
        if len(parts) > len(node.shape):
            raise StatementError(
                f"{len(parts)} slices for {len(node.shape)} axes", "", tree.col_offset
            )
        for axis, part in enumerate(parts):
            if not isinstance(part, ast.Slice):
                raise StatementError(
                    "an axis is indexed by a single number", "Write a slice `i:j`."
                )
            size = node.shape[axis]
            step = 1 if part.step is None else self._integer(part.step)
            if step == 0:
                raise StatementError("a slice has step 0", "", part.col_offset)
            bounds = slice(
                None if part.lower is None else self._integer(part.lower),
                None if part.upper is None else self._integer(part.upper),
                step,
            )
            for bound in (bounds.start, bounds.stop):
                if bound is not None and not -size <= bound <= size:
                    raise StatementError(
                        f"the slice bound {bound} is outside of axis {axis} with {size} elements"
                    )
            node = take(node, axis, *bounds.indices(size))
        return node

    def _integer(self, tree: ast.expr) -> int:
        value = parse_expression(self._text(tree)).evaluate(self.sizes)
        if abs(value) > MAX_SIZE:
            raise StatementError(f"{value} is too large", f"At most {MAX_SIZE}.", tree.col_offset)
        return value

    def _text(self, tree: ast.expr) -> str:
        return ast.get_source_segment(self.st.expr or "", tree) or ""

    def _call(self, name: str, tree: ast.Call) -> Node:
        if name == "round":
            return self._round(tree)
        if name == "opaque":
            return self._opaque(tree)
        known = ("axis", "nth") if name in COMPOSITES and COMPOSITES[name].nth else ("axis",)
        given: dict[str | None, int] = {"axis": -1, "nth": 1}
        for keyword in tree.keywords:
            if keyword.arg not in known:
                raise StatementError(f"{name} has no argument {keyword.arg!r}", "", tree.col_offset)
            given[keyword.arg] = self._integer(keyword.value)
        axis = given["axis"]
        if name in ELEMENTWISE:
            self._arity(name, tree, ELEMENTWISE[name][0])
            return apply(FUNCTION.get(name, name), *(self._node(arg) for arg in tree.args))
        if name not in COMPOSITES:
            raise MissingError
        op = COMPOSITES[name]
        args = tree.args[: op.arity] if op.integers else tree.args
        self._arity(name, tree, op.arity, len(args))
        xs = tuple(self._node(arg) for arg in args)
        axed = xs if op.arity is None else xs[:1]  # what else there is broadcasts
        for x in axed if "axis" in op.meaning else ():
            if not -len(x.shape) <= axis < max(len(x.shape), 1):
                raise StatementError(
                    f"axis {axis} does not exist in {list(x.shape)}", "", tree.col_offset
                )
        sizes = tuple(self._integer(arg) for arg in tree.args[len(args) :])
        if sizes and min(sizes) < 0:
            raise StatementError(
                f"{name} is given {min(sizes)}", "Give each number.", tree.col_offset
            )
        return op.build(Call(xs, sizes, axis, self.schedule, self.st.acc, given["nth"]))

    def _arity(self, name: str, tree: ast.Call, want: int | None, given: int | None = None) -> None:
        given = len(tree.args) if given is None else given
        if given != want and not (want is None and given):
            raise StatementError(
                f"{name} takes {'at least 1' if want is None else want} values, given {given}",
                "",
                tree.col_offset,
            )

    def _round(self, tree: ast.Call) -> Node:
        words = [arg.id for arg in tree.args[1:] if isinstance(arg, ast.Name)]
        if not words or len(words) != len(tree.args) - 1:
            raise StatementError("round needs a format", "Write `round(x, bf16)`.", tree.col_offset)
        tail = parse_tail(" ".join(words[1:]), tree.col_offset)
        if tail.acc is not None:
            remedy = "Write `acc f32 seq` behind the expression."
            raise StatementError("round takes no `acc`", remedy, tree.col_offset)
        rounding = tail.rounding(format_named(words[0], tree.col_offset))
        return Round(self._node(tree.args[0]), rounding)

    def _opaque(self, tree: ast.Call) -> Node:
        match tree.args:
            case [ast.Constant(value=str(name)), *rest] if name.isidentifier() and rest:
                return apply(f"opaque:{name}", *(self._node(arg) for arg in rest))
        raise StatementError("opaque needs a name and values", "Write `opaque('name', x)`.")
