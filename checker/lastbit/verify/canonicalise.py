"""One form for graphs that laws which keep the bits of ordinary runs make equal.

The field domain knows laws of values; it cannot know that a rounding commutes with a power of two,
or that a rounding in front of another is harmless. Those are laws of the graph, and are applied
here: one pass, arguments first, writes each node as `factor * core` with a factor of +-2^k. Factors
are pulled out as far as they go, through sums, maxima, products, roundings and views; a function
that cannot let one through (exp, an integer format) gets it back as a multiplication. Operands
whose factors differ are brought to the largest one, whatever order they stand in, so that scaling
all of them scales the result. Constants take any factor.

Two more choices make forms comparable. There is no minimum: min(x, y) is -max(-x, -y). And where a
rounded sum is a term of a sum that the same rounding closes, a factor between them goes to the
terms of the inner one, so that the two still count as one sum of several orders (the policy ROUND).

The result is for comparing values, where zero has one sign: it may compute -(0) where the program
computed 0.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction

from lastbit.choices import choice_of, is_index
from lastbit.graph import (
    Const,
    Graph,
    Map,
    Node,
    Reduce,
    Round,
    View,
    apply,
    const,
    topological,
)
from lastbit.reals import named
from lastbit.rounding import Rounding
from lastbit.verify.choosing import without_rounding_of_chosen
from lastbit.verify.closed_sums import closes, leaves, rebuilt, terms
from lastbit.verify.laws import (
    INVERSE,
    constant,
    digits,
    is_exact,
    merged_view,
    never_below,
    power_of_two,
    root_constant,
    scaled_constant,
    scaled_rounding,
    scaled_sum,
    square_part,
    without_double_rounding,
    without_root_of_square,
)

ONE = Fraction(1)


@dataclass(frozen=True, slots=True)
class Scaled:
    """The value factor * core; a constant core has the factor 1.

    Attributes:
        factor: a power of two, or minus one.
        core: a node in canonical form.
    """

    factor: Fraction
    core: Node

    @property
    def sign(self) -> Fraction:
        """Return 1 or -1."""
        return ONE if self.factor > 0 else -ONE

    def __neg__(self) -> Scaled:
        return _scaled(-self.factor, self.core)


def canonical(graph: Graph) -> Graph:
    """Return a graph with the same inputs and outputs, in canonical form.

    On ordinary runs its outputs have the same values under every policy but ROUND, where they are
    those of a program with the same bits. The form of a canonical graph is that graph.
    """
    canonicaliser = _Canonicaliser()
    results = canonicaliser.nodes(graph.results)
    values: dict[str, Node] = {node.name: node for node in graph.inputs}
    values.update(zip(graph.outputs, results, strict=True))
    return Graph(values, graph.outputs)


def _scaled(factor: Fraction, core: Node) -> Scaled:
    if factor != 1 and constant(core) is not None:
        return Scaled(ONE, scaled_constant(core, factor))
    return Scaled(factor, core)


class _Canonicaliser:
    """The pass over one graph."""

    def __init__(self) -> None:
        self._split: dict[bytes, Scaled] = {}  # of nodes that were put together here
        self._digits: dict[bytes, int | None] = {}
        self._opposite: dict[bytes, tuple[Node, Node]] = {}  # of maxima; see `_opposites`
        self._maps: dict[str, Callable[..., Scaled]] = {
            "neg": lambda x: -x,
            "abs": lambda x: Scaled(abs(x.factor), self._absolute(x.core)),
            "add": self._add,
            "sub": lambda x, y: self._add(x, -y),
            "mul": self._mul,
            "div": self._div,
            "max": self._max,
            "min": lambda x, y: -self._max(-x, -y),
            "relu": lambda x: self._max(x, Scaled(ONE, const(0))),
            "clamp": lambda x, low, high: -self._max(-self._max(x, low), -high),
            "sqrt": lambda x: self._root("sqrt", x),
            "rsqrt": lambda x: self._root("rsqrt", x),
            "sign": lambda x: Scaled(x.sign, apply("sign", x.core)),
            "select": self._select,
            "less": lambda x, y: self._compare("less", x, y),
            "less_equal": lambda x, y: self._compare("less_equal", x, y),
            "equal": lambda x, y: self._compare("equal", x, y),
        }

    def nodes(self, roots: Sequence[Node]) -> list[Node]:
        """Return the canonical forms of nodes."""
        found: dict[bytes, Scaled] = {}
        for node in topological(roots):
            out = self._form(node, [found[arg.key] for arg in node.args])
            digits(out.core, self._digits)  # arguments first, so that no recursion is deep
            found[node.key] = out
        return [self._node(found[root.key]) for root in roots]

    def _form(self, node: Node, xs: list[Scaled]) -> Scaled:
        match node:
            case Map(fn=fn) if fn in self._maps:
                return self._maps[fn](*xs)
            case Map(fn=fn):
                return self._function(fn, [self._node(x) for x in xs])
            case Round(rounding=rounding):
                return self._round(xs[0], rounding)
            case Reduce(op="sum"):
                return self._sum(node, xs[0])
            case Reduce(op="max"):
                return self._extreme(xs[0], node.axis)
            case Reduce(op="min"):
                return -self._extreme(-xs[0], node.axis)
            case Reduce(op=op) if choice_of(op) is not None:
                return self._choice(node, xs[0])
            case View():
                return self._view(node, xs)
            case Const(value=str(name)) if isinstance(value := named(name), Fraction):
                return Scaled(ONE, Const(value, shape=node.shape))
        return Scaled(ONE, node)

    # Factors

    def _node(self, x: Scaled) -> Node:
        """Return the node that has a value, its factor multiplied in."""
        if x.factor == 1:
            return x.core
        if constant(x.core) is not None:
            return scaled_constant(x.core, x.factor)
        out, size = x.core, abs(x.factor)
        if size != 1:
            out = apply("mul", out, size)
            self._split[out.key] = Scaled(size, x.core)
        if x.factor < 0:
            out = apply("neg", out)
            self._split[out.key] = x
        return out

    def _value(self, node: Node) -> Scaled:
        """Return a canonical node as factor and core."""
        return self._split.get(node.key, Scaled(ONE, node))

    def _times(self, factor: Fraction, node: Node) -> Scaled:
        x = self._value(node)
        return _scaled(factor * x.factor, x.core)

    def _common(self, xs: Iterable[Scaled], *, signed: bool = True) -> tuple[Fraction, list[Node]]:
        """Pull out the largest factor of several operands, and -1 where all are negative.

        f*a + g*b = f * (a + (g/f) * b), and likewise for max (f > 0), concat and select. The choice
        does not depend on the order of the operands, and scales when all of them do.
        """
        operands = list(xs)
        factors = [x.factor for x in operands if constant(x.core) is None]
        factor = max((abs(f) for f in factors), default=ONE)
        if signed and factors and all(f < 0 for f in factors):
            factor = -factor
        return factor, [self._node(_scaled(x.factor / factor, x.core)) for x in operands]

    def _without_power(self, x: Scaled) -> Scaled:
        """Return a constant as a power of two times an odd one; other values as they are."""
        value = constant(x.core)
        if not isinstance(value, Fraction):
            return x
        power = power_of_two(value)
        return Scaled(x.factor * power, scaled_constant(x.core, 1 / power))

    # Arithmetic

    def _add(self, x: Scaled, y: Scaled) -> Scaled:
        factor, (a, b) = self._common((x, y))
        for left, right in ((a, b), (b, a)):
            negated = self._value(right)
            if negated.factor < 0:
                return Scaled(factor, apply("sub", left, self._node(-negated)))
        return _scaled(factor, apply("add", a, b))

    def _mul(self, x: Scaled, y: Scaled) -> Scaled:
        """(f*a) * (g*b) = f*g * (a*b); 1 * a = a; sqrt(a)^2 = a, for it is NaN where a < 0."""
        x, y = self._without_power(x), self._without_power(y)
        if x.core.key == y.core.key and isinstance(x.core, Map) and x.core.fn == "sqrt":
            return self._times(x.factor * y.factor, x.core.xs[0])
        out: Node = apply("mul", x.core, y.core)
        for a, b in ((x.core, y.core), (y.core, x.core)):
            if constant(b) == 1 and a.shape == out.shape:
                out = a
        return _scaled(x.factor * y.factor, out)

    def _div(self, x: Scaled, y: Scaled) -> Scaled:
        """(f*a) / (g*b) = f/g * (a/b); a / 1 = a."""
        x, y = self._without_power(x), self._without_power(y)
        out: Node = apply("div", x.core, y.core)
        if constant(y.core) == 1 and x.core.shape == out.shape:
            out = x.core
        return _scaled(x.factor / y.factor, out)

    def _root(self, fn: str, x: Scaled) -> Scaled:
        """sqrt(4^j * x) = 2^j * sqrt(x); the root of a constant that is a square is a constant."""
        if x.factor < 0:
            return Scaled(ONE, apply(fn, self._node(x)))
        if (known := root_constant(fn, x.core)) is not None:
            return Scaled(ONE, known)
        root = square_part(x.factor)
        rest = self._node(Scaled(x.factor / root**2, x.core))
        return Scaled(root if fn == "sqrt" else 1 / root, apply(fn, rest))

    def _function(self, fn: str, xs: list[Node]) -> Scaled:
        """exp(log(x)) = x, and the like; other functions take their operands as they are."""
        (x, *_) = xs
        if isinstance(x, Map) and INVERSE.get(fn) == x.fn:
            return self._value(x.xs[0])
        return Scaled(ONE, Map(fn, tuple(xs)))

    # Maxima

    def _max(self, x: Scaled, y: Scaled) -> Scaled:
        """max(f*x, f*y) = f * max(x, y) for f > 0; max(x, -x) = |x|, also of maxima of many x.

        A constant that no finite number of the other's format is below does nothing.
        """
        factor, (a, b) = self._common((x, y), signed=False)
        for one, other in ((a, b), (b, a)):
            bound = constant(other)
            if isinstance(bound, Fraction) and never_below(one, bound):
                return self._times(factor, one)
            opposite, absolute = self._opposites(one)
            if opposite.key == other.key:
                return self._times(factor, absolute)
        out = apply("max", a, b)
        pairs = zip(self._opposites(a), self._opposites(b), strict=True)
        self._remember(out, (apply("max", *pair) for pair in pairs))
        return _scaled(factor, out)

    def _extreme(self, x: Scaled, axis: int) -> Scaled:
        factor, (operand,) = self._common((x,), signed=False)
        out = Reduce("max", operand, axis)
        self._remember(out, (Reduce("max", part, axis) for part in self._opposites(operand)))
        return Scaled(factor, out)

    def _choice(self, node: Reduce, x: Scaled) -> Scaled:
        """argmax(f*x) = argmax(x) for f > 0; the second largest of f*x is f times that of x."""
        operand = self._node(_scaled(x.sign, x.core))
        out = Reduce(node.op, operand, node.axis)
        return Scaled(ONE if is_index(node.op) else abs(x.factor), out)

    def _remember(self, out: Node, opposites: Iterable[Node]) -> None:
        opposite, absolute = opposites
        self._opposite[out.key] = opposite, absolute
        digits(opposite, self._digits)
        digits(absolute, self._digits)

    def _opposites(self, node: Node) -> tuple[Node, Node]:
        """Return a maximum with its leaves negated, and with their magnitudes.

        max over x and -x is max over |x|, so the maximum of a node and its opposite is the second.
        Minus infinity, with which a maximum starts, stays.
        """
        if constant(node) == float("-inf"):
            return node, node
        x = self._value(node)
        if x.factor > 0 and x.core.key in self._opposite:
            both = (self._times(x.factor, y) for y in self._opposite[x.core.key])
            opposite, absolute = (self._node(y) for y in both)
            return opposite, absolute
        return self._node(-x), self._node(_scaled(abs(x.factor), self._absolute(x.core)))

    def _absolute(self, core: Node) -> Node:
        """||x|| = |x|."""
        return core if isinstance(core, Map) and core.fn == "abs" else apply("abs", core)

    # Comparisons

    def _compare(self, fn: str, x: Scaled, y: Scaled) -> Scaled:
        """f*x < f*y is x < y for f > 0, and y < x for f < 0."""
        factor, (a, b) = self._common((x, y))
        return Scaled(ONE, apply(fn, b, a) if factor < 0 else apply(fn, a, b))

    def _select(self, condition: Scaled, x: Scaled, y: Scaled) -> Scaled:
        """select(c, a, a) = a; select(a < b, b, a) = max(a, b); select(0 < a, a, -a) = |a|.

        At a = b both branches are equal, so `<` and `<=` do the same.
        """
        factor, (a, b) = self._common((x, y))
        out = apply("select", condition.core, a, b)
        if a.key == b.key and a.shape == out.shape:
            return self._times(factor, a)
        test = condition.core
        if not isinstance(test, Map) or test.fn not in ("less", "less_equal"):
            return _scaled(factor, out)
        low, high = test.xs
        found = None
        if (a.key, b.key) == (high.key, low.key):
            found = self._max(self._value(low), self._value(high))
        elif (a.key, b.key) == (low.key, high.key):
            found = -self._max(-self._value(low), -self._value(high))
        elif constant(low) == 0 and self._node(-self._value(a)).key == b.key:
            found = self._magnitude(high, a, b)
        elif constant(high) == 0 and self._node(-self._value(a)).key == b.key:
            found = self._magnitude(low, b, a)
        if found is None or found.core.shape != out.shape:
            return _scaled(factor, out)
        return _scaled(factor * found.factor, found.core)

    def _magnitude(self, tested: Node, positive: Node, negative: Node) -> Scaled | None:
        """Return what `positive` where tested > 0, else `negative`, is; None if it is no |x|."""
        x = self._value(tested)
        size = _scaled(abs(x.factor), self._absolute(x.core))
        if tested.key == positive.key:
            return size
        return -size if tested.key == negative.key else None

    # Roundings and sums

    def _pulled(
        self, x: Scaled, scaled: Callable[[Fraction], Rounding | None]
    ) -> tuple[Fraction, Node, Rounding]:
        """Return the factor that a rounding lets out, what it rounds then, and how."""
        for factor in (x.factor, abs(x.factor), ONE):
            rounding = scaled(factor)
            if rounding is not None:
                return factor, self._node(_scaled(x.factor / factor, x.core)), rounding
        raise AssertionError("a factor of 1 can always be pulled out")

    def _round(self, x: Scaled, rounding: Rounding) -> Scaled:
        core = without_root_of_square(x.core, rounding, self._digits)
        core = without_double_rounding(core, rounding, self._digits)
        x = Scaled(x.factor, without_rounding_of_chosen(core, rounding, self._digits))
        factor, operand, inner = self._pulled(x, lambda f: scaled_rounding(rounding, f))
        out = Round(self._opened(operand, inner), inner)
        if operand.key in self._opposite and scaled_rounding(inner, -ONE) == inner:
            self._remember(out, (Round(y, inner) for y in self._opposite[operand.key]))
        return Scaled(factor, out)

    def _sum(self, node: Reduce, x: Scaled) -> Scaled:
        if is_exact(node):
            return Scaled(x.factor, Reduce("sum", x.core, node.axis, node.schedule, node.acc))
        factor, operand, acc = self._pulled(x, lambda f: scaled_sum(node, f))
        return Scaled(factor, Reduce("sum", operand, node.axis, node.schedule, acc))

    def _view(self, node: View, xs: list[Scaled]) -> Scaled:
        if len(xs) > 1:
            factor, parts = self._common(xs)
            return _scaled(factor, View(node.kind, tuple(parts), node.params))
        (x,) = xs
        out = merged_view(node.kind, x.core, node.params)
        if x.core.key in self._opposite:
            both = self._opposite[x.core.key]
            self._remember(out, (merged_view(node.kind, y, node.params) for y in both))
        return self._times(x.factor, out)

    def _opened(self, operand: Node, rounding: Rounding) -> Node:
        """Return a sum that `rounding` closes, with no factor on terms that it closed before.

        f * Round(a + b) = Round(f*a + f*b): see `scaled_rounding`.
        """
        if not terms(operand):
            return operand
        new = {}
        for term in leaves(operand, terms):
            x = self._value(term)
            new[term.key] = term
            if abs(x.factor) != 1 and closes(x.core, rounding):
                inner = self._spread(x.core, abs(x.factor), rounding)
                new[term.key] = self._node(Scaled(x.sign, inner))
        return rebuilt(operand, new)

    def _spread(self, core: Node, factor: Fraction, rounding: Rounding) -> Node:
        """Return factor * core, where the factor goes to the terms of closed sums."""

        def inside(node: Node) -> tuple[Node, ...]:
            return node.args if closes(node, rounding) else terms(node)

        scaled = {x.key: self._node(self._times(factor, x)) for x in leaves(core, inside)}
        return rebuilt(core, scaled)
