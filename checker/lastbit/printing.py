"""Print a graph as text that parses back to the same graph.

A statement is written for every named value, every rounding, every sum and every value that is
read more than once; all else stands inside the expressions that read it. What the text form has
no words for does not come back: a sum whose accumulator rounds in another mode than the default,
the seed of a stochastic rounding, and views that the builders of `graph` do not make.
"""

from __future__ import annotations

from collections import Counter
from fractions import Fraction

from lastbit.graph import (
    Const,
    Graph,
    Input,
    Map,
    Node,
    Reduce,
    Round,
    View,
    matmul,
    native_rounding,
    topological,
)
from lastbit.ops import TEXT_NAME
from lastbit.rounding import Rounding
from lastbit.statement import Statement
from lastbit.text import Program

_INFIX = {"add": ("+", 1), "sub": ("-", 1), "mul": ("*", 2), "div": ("/", 2)}
_ATOM = 9
_UNARY = 3


def print_graph(graph: Graph) -> str:
    """Return the text form of a graph with fixed sizes."""
    return _Printer(graph).text()


def print_program(program: Program) -> str:
    """Return the text form of a program, symbols included; it parses back to the same program."""
    lines = [statement_text(st) for st in program.statements]
    return "\n".join((*lines, f"return {', '.join(program.outputs)}")) + "\n"


def statement_text(st: Statement) -> str:
    """Return the text form of a statement."""
    shape = "" if st.dims is None else f"[{', '.join(map(str, st.dims))}]"
    fmt = "real" if st.rounding is None else st.rounding.format.short
    if st.expr is None:
        return f"{st.name}: {fmt}{shape}"
    acc = "" if st.acc is None else f" acc {st.acc.format.short} {st.schedule}"
    tail = "" if st.rounding is None else tail_words(st.rounding)
    return f"{st.name}: {fmt}{shape} = {st.expr}{acc}{tail}"


def tail_words(rounding: Rounding) -> str:
    """Return the words that follow an expression, with a leading space, or nothing."""
    plain = Rounding.of(rounding.format)
    words: list[str] = []
    if rounding.mode != plain.mode:
        words.append(rounding.mode)
    if rounding.overflow != plain.overflow:
        words.append({"inf": "to_inf", "nan": "to_nan"}.get(rounding.overflow, "saturate"))
    if rounding.subnormals == "flush":
        words.append("flush")
    return "".join(f" {word}" for word in words)


def number_text(value: Fraction | float | str) -> str:
    """Return a constant as the text form writes it."""
    if isinstance(value, str):
        return value
    if isinstance(value, float):
        return {"inf": "inf", "-inf": "-inf", "nan": "nan"}.get(str(value), "-0.0")
    if value.denominator == 1 and abs(value.numerator) < 2**53:
        return str(value.numerator)
    if value.denominator & (value.denominator - 1) == 0 and _is_double(value):
        return f"'{float(value).hex()}'"
    return f"{value.numerator} / {value.denominator}"


def _is_double(value: Fraction) -> bool:
    try:
        return Fraction(float(value)) == value
    except OverflowError:
        return False


class _Printer:
    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        nodes = list(topological(graph.values.values()))
        self.products, self.factors = _products(nodes)
        visible = {node.key for node in graph.values.values()}
        uses: Counter[bytes] = Counter()
        for node in reversed(nodes):
            if node.key in visible:
                args: tuple[Node, ...] = self.factors.get(node.key, node.args)
                uses.update(arg.key for arg in args)
                visible.update(arg.key for arg in args)
        self.nodes = [node for node in nodes if node.key in visible]
        self.names: dict[bytes, str] = {}
        for name, node in graph.values.items():
            self.names.setdefault(node.key, name)
        absorbed = {
            node.x.key
            for node in self.nodes
            if isinstance(node, Round) and uses[node.x.key] == 1 and node.x.key not in self.names
        }
        fresh = (name for i in range(1, 2**31) if (name := f"v{i}") not in graph.values)
        for node in self.nodes:
            if node.key in self.names or isinstance(node, Const):
                continue
            alone = self._sum_of(node) is not None and node.key not in absorbed
            if alone or isinstance(node, Round) or uses[node.key] > 1:
                self.names[node.key] = next(fresh)

    def _sum_of(self, node: Node) -> Reduce | None:
        """Return the sum that `node` is, a matrix product included."""
        inner = self.products.get(node.key, node)
        return inner if isinstance(inner, Reduce) and inner.op == "sum" else None

    def text(self) -> str:
        lines = []
        for node in self.nodes:
            name = self.names.get(node.key)
            if name is not None:
                lines.append(self._line(name, node))
        for name, node in self.graph.values.items():
            if self.names[node.key] != name:
                lines.append(f"{name}: real = {self.names[node.key]}")
        lines.append(f"return {', '.join(self.graph.outputs)}")
        return "\n".join(lines) + "\n"

    def _line(self, name: str, node: Node) -> str:
        if isinstance(node, Input):
            return f"{name}: {node.format.short}[{', '.join(map(str, node.shape))}]"
        if isinstance(node, Round):
            inner = None if node.x.key in self.names else self._sum_of(node.x)
            fmt, words = node.rounding.format.short, tail_words(node.rounding)
            expr = self._expr(node.x)
            if native_rounding(node.x) == node.rounding:  # the format alone would add no rounding
                expr = f"round({expr}, {fmt}{words.replace(' ', ', ')})"
            return f"{name}: {fmt} = {expr}{_acc_text(inner)}{words}"
        inner = self._sum_of(node)
        fmt = "real" if inner is None or inner.acc is None else inner.acc.format.short
        return f"{name}: {fmt} = {self._expr(node, top=True)}{_acc_text(inner)}"

    def _expr(self, node: Node, level: int = 0, top: bool = False) -> str:
        if node.key in self.names and not top:
            return self.names[node.key]
        text, own = self._body(node)
        return f"({text})" if own < level else text

    def _body(self, node: Node) -> tuple[str, int]:
        match node:
            case Const(value=value):
                text = number_text(value)
                return text, 2 if "/" in text else _UNARY if text.startswith("-") else _ATOM
            case Map(fn=fn, xs=(Const() as a, *rest)) if fn in ("neg", "div") and _folds(a, *rest):
                return f"{fn}({self._list(node.xs)})", _ATOM
            case Map(fn=fn, xs=(a, b)) if fn in _INFIX:
                sign, level = _INFIX[fn]
                left, right = self._expr(a, level), self._expr(b, level + 1)
                return f"{left} {sign} {right}", level
            case Map(fn="neg", xs=(a,)):
                return f"-{self._expr(a, _ATOM)}", _UNARY
            case Map(fn=fn, xs=xs) if fn.startswith("opaque:"):
                return f"opaque('{fn[7:]}', {self._list(xs)})", _ATOM
            case Map(fn=fn, xs=xs):
                return f"{TEXT_NAME.get(fn, fn)}({self._list(xs)})", _ATOM
            case Reduce(op=op, x=x, axis=axis):
                if op == "max" and isinstance(x, Map) and x.fn == "abs" and x.key not in self.names:
                    return f"amax({self._expr(x.xs[0])}, axis={axis})", _ATOM
                word, _, nth = op.partition(" ")
                place = f", nth={nth}" if nth else ""
                return f"{word}({self._expr(x)}{place}, axis={axis})", _ATOM
            case View():
                return self._view(node), _ATOM
        raise AssertionError(node)

    def _list(self, xs: tuple[Node, ...]) -> str:
        return ", ".join(self._expr(x) for x in xs)

    def _view(self, node: View) -> str:
        if node.key in self.products:
            a, b = self.factors[node.key]
            return f"matmul({self._expr(a)}, {self._expr(b)})"
        if node.kind == "concat":
            return f"concat({self._list(node.xs)}, axis={node.params[0]})"
        if node.kind != "slice":
            sizes = "".join(f", {size}" for size in node.params)
            return f"{node.kind}({self._expr(node.xs[0])}{sizes})"
        x = self._expr(node.xs[0], _ATOM)
        parts = []
        for (start, stop, step), size in zip(node.bounds, node.xs[0].shape, strict=True):
            if (start, stop, step) == (0, size, 1):
                parts.append(":")
            elif step > 0:
                parts.append(f"{start}:{stop}" + (f":{step}" if step != 1 else ""))
            else:
                low = "" if stop < 0 else str(stop)
                parts.append(f"{'' if start == size - 1 else start}:{low}:{step}")
        return f"{x}[{', '.join(parts)}]"


def _folds(*xs: Node) -> bool:
    """Return whether a sign or a quotient of such arguments would be read as one constant."""
    return all(isinstance(x, Const) and not isinstance(x.value, str) for x in xs)


def _acc_text(node: Reduce | None) -> str:
    return (
        "" if node is None or node.acc is None else f" acc {node.acc.format.short} {node.schedule}"
    )


def _products(
    nodes: list[Node],
) -> tuple[dict[bytes, Reduce], dict[bytes, tuple[Node, Node]]]:
    """Return the sum behind each node that is a matrix product, and the two factors."""
    sums: dict[bytes, Reduce] = {}
    factors: dict[bytes, tuple[Node, Node]] = {}
    for node in nodes:
        if not (isinstance(node, View) and node.kind == "reshape"):
            continue
        inner = node.xs[0]
        if not (isinstance(inner, Reduce) and inner.op == "sum"):
            continue
        pair = _factors(inner)
        if pair and matmul(*pair, inner.schedule, inner.acc).key == node.key:
            sums[node.key], factors[node.key] = inner, pair
    return sums, factors


def _factors(inner: Reduce) -> tuple[Node, Node] | None:
    match inner.x:
        case Map(fn="mul", xs=(View(kind="reshape", xs=(a,)), View(kind="reshape") as c)):
            match c.xs[0]:
                case View(kind="transpose", xs=(b,)) if len(a.shape) == len(b.shape) == 2:
                    return (a, b) if a.shape[1] == b.shape[0] else None
    return None
