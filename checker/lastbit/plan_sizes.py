"""Sizes of an imported model as symbols, so that a verdict can be found at small ones.

A model file states most sizes as numbers, and they hang together: 4096 columns become 32 heads of
128, and 128 are two halves of 64. Every reshape, slice and concatenation of a program is such an
equation between its sizes. Those that follow from others are written as products and sums of them
(`32 * size_128`), the others become symbols of one size each. A size in an equation that does not
hold for other sizes stays a number, and so does one that stands among the constants, as in a mean
that is written out: `sum(x) / 64` is another function of rows of length 12.
"""

from __future__ import annotations

import ast
import math
import random
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from lastbit.definitions import reference
from lastbit.errors import LastbitError
from lastbit.expression import parse_expression
from lastbit.graph import Node, View, topological
from lastbit.ops import COMPOSITES
from lastbit.plan_model import Plan, Span
from lastbit.statement import Statement
from lastbit.text import Program

LEAST = 8  # sizes below are small enough as they are
TRIALS = 3  # sets of small sizes at which everything must fit

_MOST = 1 << 48  # of constants that are looked at
_NEAR = 2.0**-7  # of c * n to 1, for a constant c that may be 1 / n rounded to a narrow format

# Sizes of symbols while equations are looked for: larger primes than any usual factor of a size.
_PRIMES = (100_003, 100_019, 100_043, 100_049, 100_057, 100_069, 100_103, 100_109, 100_129)

Part = tuple[str, tuple[int, ...]]  # `product` or `sum`, of sizes


def with_shrinking_sizes(plan: Plan) -> Plan:
    """Return a plan of imported models with symbols for sizes that the files give as numbers."""
    programs = [program for program in (plan.program, plan.after) if program is not None]
    if not plan.imports or len(plan.symbols) > len(_PRIMES):
        return plan
    sizes = dict(zip(plan.symbols, _PRIMES, strict=False))
    try:
        nodes = [node for program in programs for node in program.nodes(sizes, reference).values()]
    except LastbitError:
        return plan  # it does not fit at such sizes
    table = _Table({n for program in programs for st in program.statements for n in _numbers(st)})
    for equation in _equations(nodes, frozenset(sizes.values())):
        table.add(*equation)
    for size in sorted(table.numbers & _tied(programs)):
        table.add(*_fixed(size))
    table.settle()
    symbols = {table.name(n): Span(n, n, n) for n in sorted(table.free())}
    if not symbols or symbols.keys() & plan.symbols.keys():
        return plan
    written = [_written(program, table) for program in programs]
    if not _fit(written, symbols, plan):
        return plan
    return replace(
        plan,
        program=written[0],
        after=written[1] if plan.after is not None else None,
        symbols={**plan.symbols, **symbols},
    )


@dataclass
class _Table:
    """What is known of the sizes that a program writes as numbers.

    Attributes:
        numbers: the sizes.
        parts: for a size that follows from others, what it is.
        pinned: sizes that stay numbers.
        equations: pairs that must be equal at all sizes.
    """

    numbers: set[int]
    parts: dict[int, Part] = field(default_factory=dict)
    pinned: set[int] = field(default_factory=set)
    equations: dict[tuple[Part, Part], None] = field(default_factory=dict)

    def add(self, left: Part, right: Part) -> None:
        """Note an equation; a size alone on one side is defined by it."""
        self.equations[left, right] = None
        for (_, alone), other in ((left, right), (right, left)):
            if len(alone) == 1 and alone[0] >= LEAST and max(other[1], default=0) < alone[0]:
                self.parts.setdefault(alone[0], other)
                self.numbers.update(other[1])
                return

    def settle(self) -> None:
        """Pin the sizes of equations that do not hold at other sizes, until all hold."""
        draw = random.Random(0)
        while True:
            free = sorted(self.free())
            values = {n: draw.randrange(2, 1 << 20) for n in free}
            wrong = [
                pair
                for pair in self.equations
                if self._value(pair[0], values) != self._value(pair[1], values)
            ]
            again = {n for pair in wrong for _, side in pair for n in side if n >= LEAST}
            if not again - self.pinned:
                return
            self.pinned |= again

    def free(self) -> set[int]:
        """Return the sizes that are symbols."""
        return {n for n in self.numbers if n >= LEAST and n not in self.pinned | self.parts.keys()}

    def fixed(self, size: int) -> bool:
        """Return whether a size stays a number, because it is pinned or follows from such."""
        if size in self.pinned or size < LEAST or size not in self.numbers:
            return True
        return size in self.parts and all(self.fixed(part) for part in self.parts[size][1])

    def name(self, number: int) -> str:
        """Return the symbol of a size."""
        return f"size_{number}"

    def _value(self, part: Part, values: Mapping[int, int]) -> int:
        kind, sizes = part
        found = [self._size(size, values) for size in sizes]
        return math.prod(found) if kind == "product" else sum(found)

    def _size(self, size: int, values: Mapping[int, int]) -> int:
        if size in self.pinned or size < LEAST:
            return size
        if size in self.parts:
            return self._value(self.parts[size], values)
        return values.get(size, size)

    def text(self, size: int) -> str:
        """Return a size as an expression of the symbols."""
        if self.fixed(size):
            return str(size)
        if size not in self.parts:
            return self.name(size)
        kind, sizes = self.parts[size]
        sign = " * " if kind == "product" else " + "
        parts = [self.text(part) for part in sizes]
        return sign.join(p if p.isidentifier() or p.isdigit() else f"({p})" for p in parts)


def _equations(nodes: Iterable[Node], primes: frozenset[int]) -> Iterator[tuple[Part, Part]]:
    """Yield the equations between sizes that views state."""
    for node in topological(nodes):
        if not isinstance(node, View):
            continue
        if node.kind == "reshape":
            yield from _product(node.xs[0].shape, node.shape, primes)
        elif node.kind == "slice":
            for size, (start, stop, step) in zip(node.xs[0].shape, node.bounds, strict=True):
                if (start, stop, step) == (0, size, 1):
                    continue
                if step == 1 and start >= 0 and not _mixed((size, start, stop), primes):
                    yield from _piece(size, start, stop)
                else:
                    yield from (_fixed(n) for n in (size, start, stop))
        elif node.kind == "concat":
            axis = int(str(node.params[0]))
            parts = tuple(x.shape[axis] for x in node.xs)
            if _mixed((*parts, node.shape[axis]), primes):
                yield from (_fixed(n) for n in (*parts, node.shape[axis]))
            elif len(set(parts)) == 1:
                yield ("product", (node.shape[axis],)), ("product", (len(parts), parts[0]))
            else:
                yield ("sum", (node.shape[axis],)), ("sum", parts)


def _product(
    first: Sequence[int], second: Sequence[int], primes: frozenset[int]
) -> Iterator[tuple[Part, Part]]:
    left, right = _plain(first, primes), _plain(second, primes)
    for size in list(left):
        if size in right:
            left.remove(size)
            right.remove(size)
    if left or right:
        yield ("product", tuple(left)), ("product", tuple(right))


def _piece(size: int, start: int, stop: int) -> Iterator[tuple[Part, Part]]:
    """Yield what a slice says: its ends in units that divide the axis, and its length."""
    unit = math.gcd(size, start, stop)
    for end in {size, start, stop}:
        if end > unit:
            yield ("product", (end,)), ("product", (end // unit, unit))
    yield ("sum", (stop,)), ("sum", (start, stop - start))


def _fixed(size: int) -> tuple[Part, Part]:
    """Return an equation that holds for the number itself only."""
    return ("product", (size,)), ("product", (size, 1, 1)) if size < LEAST else ("sum", _ones(size))


def _ones(size: int) -> tuple[int, ...]:
    return (LEAST - 1,) * (size // (LEAST - 1)) + (size % (LEAST - 1),)


def _plain(shape: Sequence[int], primes: frozenset[int]) -> list[int]:
    """Return the sizes of a shape without the symbols in them, and without ones."""
    out = []
    for size in shape:
        for prime in primes:
            while size and size % prime == 0:
                size //= prime
        if size != 1:
            out.append(size)
    return out


def _mixed(sizes: Iterable[int], primes: frozenset[int]) -> bool:
    return any(size > 90_000 or size in primes for size in sizes)


def _numbers(st: Statement) -> Iterator[int]:
    """Yield the numbers that a statement writes as sizes."""
    for dim in st.dims or ():
        yield from _integers(ast.parse(dim.text, mode="eval"))
    if st.expr is not None and any(c.isdigit() for c in st.expr):
        for part in _size_parts(ast.parse(st.expr, mode="eval")):
            yield from _integers(part)


def _tied(programs: Iterable[Program]) -> set[int]:
    """Return the numbers that sizes may stand for among the constants: n, 1 / n, n - 1."""
    found: set[int] = set()
    for text in {st.expr for program in programs for st in program.statements if st.expr}:
        for value in _constants(ast.parse(text, mode="eval").body):
            if 1 / _MOST < value < 1:
                near = round(1 / value)
                found |= {near} if abs(value * near - 1) <= _NEAR else set()
            elif LEAST - 1 <= value < _MOST and value == int(value):
                found |= {int(value), int(value) + 1}
    return found


def _constants(tree: ast.AST) -> Iterator[float]:
    """Yield the numbers of an expression that are no sizes and no axes; of roots, whole ones."""
    value = _value_of(tree)
    if value is not None:
        yield value
    elif isinstance(tree, ast.Call) and isinstance(tree.func, ast.Name):
        name, op = tree.func.id, COMPOSITES.get(tree.func.id)
        given = _value_of(tree.args[0]) if name in ("sqrt", "rsqrt") else None
        if given is not None:
            root = math.sqrt(max(given, 0))
            if root >= 1 and root == int(root):
                yield root if name == "sqrt" else 1 / root
        elif name != "size":
            for argument in tree.args if op is None else tree.args[: op.arity]:
                yield from _constants(argument)
    elif isinstance(tree, ast.Subscript):
        yield from _constants(tree.value)
    elif isinstance(tree, ast.BinOp) and isinstance(tree.op, ast.Pow):
        yield from () if _value_of(tree.left) is not None else _constants(tree.left)
    else:
        for child in ast.iter_child_nodes(tree):
            yield from _constants(child)
        if isinstance(tree, ast.BinOp) and isinstance(tree.op, ast.Div):
            above, below = _value_of(tree.left), _value_of(tree.right)
            if above and below:
                yield above / below


def _value_of(tree: ast.AST) -> float | None:
    """Return the number that a part of an expression is, where it is one of a usual size."""
    value = tree.value if isinstance(tree, ast.Constant) else None
    if isinstance(value, str) and value.startswith("0x"):
        try:
            return float.fromhex(value)
        except (ValueError, OverflowError):
            return None
    return float(value) if isinstance(value, int | float) and abs(value) < _MOST else None


def _integers(tree: ast.AST) -> Iterator[int]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and type(node.value) is int:
            yield node.value


def _size_parts(tree: ast.AST) -> Iterator[ast.AST]:
    """Yield the parts of an expression that are sizes or bounds of slices."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Subscript):
            yield node.slice
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
            op = COMPOSITES.get(node.func.id)
            if op is not None and node.func.id in ("reshape", "broadcast", "size"):
                yield from node.args[op.arity or 0 :]


class _Rewriter(ast.NodeTransformer):
    """Replaces sizes by their expressions, inside the parts that are sizes."""

    def __init__(self, table: _Table) -> None:
        self.table = table

    def visit_Constant(self, node: ast.Constant) -> ast.AST:
        if type(node.value) is not int:
            return node
        text = self.table.text(node.value)
        return node if text.isdigit() else ast.parse(text, mode="eval").body


def _written(program: Program, table: _Table) -> Program:
    rewriter = _Rewriter(table)

    def text(source: str) -> str:
        return ast.unparse(rewriter.visit(ast.parse(source, mode="eval")))

    statements = []
    for st in program.statements:
        dims = st.dims
        if dims is not None:
            dims = tuple(parse_expression(text(dim.text)) for dim in dims)
        expr = st.expr
        if expr is not None and any(table.text(n) != str(n) for n in _numbers(st)):
            tree = ast.parse(expr, mode="eval")
            for part in list(_size_parts(tree)):
                _replace_in(tree, part, rewriter)
            expr = ast.unparse(tree)
        statements.append(replace(st, dims=dims, expr=expr))
    return replace(program, statements=tuple(statements))


def _replace_in(tree: ast.AST, part: ast.AST, rewriter: _Rewriter) -> None:
    """Rewrite a part of a tree where it stands."""
    for node in ast.walk(tree):
        for name, value in ast.iter_fields(node):
            if value is part:
                setattr(node, name, rewriter.visit(part))
                return
            if isinstance(value, list) and any(one is part for one in value):
                value[:] = [rewriter.visit(one) if one is part else one for one in value]
                return


def _fit(programs: Sequence[Program], symbols: Mapping[str, Span], plan: Plan) -> bool:
    """Return whether the programs fit together at other sizes than those of the file."""
    draw = random.Random(1)
    for _ in range(TRIALS):
        small = {name: draw.randrange(2, 9) for name in symbols}
        given = {name: max(span.low, draw.randrange(2, 9)) for name, span in plan.symbols.items()}
        if any(program.problems({**given, **small}) for program in programs):
            return False
    return True
