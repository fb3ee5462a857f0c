"""Evaluate a graph in a value domain under a policy.

This is the one place that says what each policy does at each node. A domain brings values and
what to do with them; it knows nothing of policies. Under ROUND, a sum is opened and closed:
`x + y` with a rounding behind it is the closed sum of two terms, and a term that is itself a
closed sum of the same rounding is opened again, so nested sums and chains of rounded additions
are one sum, however they were written.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, MutableMapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Generic, Protocol, TypeVar

from lastbit.graph import Const, Graph, Input, Map, Node, Reduce, Round, View, topological
from lastbit.interpret.policy import Policy
from lastbit.rounding import Rounding
from lastbit.schedule import Schedule, fold, formats

T = TypeVar("T")
S = TypeVar("S")


class Domain(Protocol[T, S]):
    """What a value domain brings; `T` is a tensor of its values, `S` a tensor of open sums.

    A value of `T` that `close` returned remembers the sum it closed; views and negation keep it.
    """

    def input(self, node: Input) -> T:
        """Return the tensor of an input."""

    def const(self, node: Const) -> T:
        """Return a constant."""

    def map(self, fn: str, xs: tuple[T, ...]) -> T:
        """Return an elementwise function."""

    def view(self, node: View, xs: tuple[T, ...]) -> T:
        """Return a view."""

    def round(self, x: T, rounding: Rounding) -> T:
        """Return the values of x, rounded."""

    def clamp(self, x: T, rounding: Rounding) -> T:
        """Return x limited to the finite range of a saturating format, not rounded."""

    def extreme(self, op: str, x: T, axis: int) -> T:
        """Return the maximum, minimum or choice (`lastbit.choices`) along an axis."""

    def total(self, x: T, axis: int) -> T:
        """Return the exact sum along an axis."""

    def tree(self, x: T, axis: int, schedule: Schedule, rounding: Rounding) -> T:
        """Return the sum along an axis by a schedule, rounded at every node."""

    def open(self, x: T, rounding: Rounding) -> S:
        """Return x as terms of a sum that `rounding` will close."""

    def merge(self, sums: list[S]) -> S:
        """Return the sum of open sums."""

    def gather(self, x: S, axis: int) -> S:
        """Return the open sum along an axis of open sums."""

    def close(self, x: S, rounding: Rounding) -> T:
        """Return the value of an open sum, rounded once."""


def evaluate(
    roots: Iterable[Node],
    domain: Domain[T, S],
    policy: Policy,
    known: MutableMapping[bytes, T] | None = None,
    tick: Callable[[], None] | None = None,
) -> list[T]:
    """Evaluate nodes.

    Args:
        roots: the nodes wanted.
        domain: the value domain.
        policy: which roundings are carried out.
        known: values by key of node, found earlier under the same domain and policy; extended.
        tick: called before each node; may raise to stop.

    Returns:
        The values of `roots`, in order.
    """
    wanted = tuple(roots)
    values = {} if known is None else known
    for node in _order(wanted):
        if node.key not in values:
            if tick is not None:
                tick()
            values[node.key] = _value(node, values, domain, policy)
    return [values[node.key] for node in wanted]


@lru_cache(maxsize=256)
def _order(roots: tuple[Node, ...]) -> tuple[Node, ...]:
    return tuple(topological(roots))


def results(graph: Graph, domain: Domain[T, S], policy: Policy) -> dict[str, T]:
    """Return the value of each output of a graph, by name."""
    return dict(zip(graph.outputs, evaluate(graph.results, domain, policy), strict=True))


def _value(node: Node, values: Mapping[bytes, T], domain: Domain[T, S], policy: Policy) -> T:
    match node:
        case Input():
            return domain.input(node)
        case Const():
            return domain.const(node)
        case Map(fn=fn, xs=xs):
            return domain.map(fn, tuple(values[x.key] for x in xs))
        case View(xs=xs):
            return domain.view(node, tuple(values[x.key] for x in xs))
        case Round(x=x, rounding=rounding):
            if policy.rounds(rounding):
                if policy == Policy.ROUND and _is_sum(x):
                    terms = [domain.open(t, rounding) for t in _terms(x, values, domain)]
                    return domain.close(domain.merge(terms), rounding)
                return domain.round(values[x.key], rounding)
            if rounding.overflow == "saturate":
                return domain.clamp(values[x.key], rounding)
            return values[x.key]
        case Reduce(op="sum"):
            return _sum(node, values[node.x.key], domain, policy)
        case Reduce(op=op, x=x, axis=axis):
            return domain.extreme(op, values[x.key], axis)
    raise TypeError(f"{type(node).__name__} is no node of a graph")


def _is_sum(node: Node) -> bool:
    return isinstance(node, Map) and node.fn in ("add", "sub")


def _terms(node: Node, values: Mapping[bytes, T], domain: Domain[T, S]) -> list[T]:
    """Return the terms of an unrounded sum such as `a + (b - c)`."""
    if not (isinstance(node, Map) and _is_sum(node)):
        return [values[node.key]]
    left, right = node.xs
    if node.fn == "add":
        return _terms(left, values, domain) + _terms(right, values, domain)
    negated = [domain.map("neg", (term,)) for term in _terms(right, values, domain)]
    return _terms(left, values, domain) + negated


def _sum(node: Reduce, x: T, domain: Domain[T, S], policy: Policy) -> T:
    if node.acc is None or node.schedule is None or policy < Policy.ROUND:
        return domain.total(x, node.axis)
    if policy == Policy.BITS:
        return domain.tree(x, node.axis, node.schedule, node.acc)
    acc = node.acc
    if formats(node.schedule, acc.format.short) <= {acc.format.short}:
        return domain.close(domain.gather(domain.open(x, acc), node.axis), acc)
    levels: _Levels[T, S] = _Levels(x, node, domain, acc)
    return levels.closed(fold(node.schedule, node.length, acc.format.short, levels))


@dataclass(frozen=True, slots=True)
class _Part(Generic[T, S]):
    """A value in the tree of a sum: an exact element, or an open sum in a format.

    Attributes:
        element: the element, or None.
        sum: the open sum, or None; neither: nothing was added yet.
        format: the format of the sum.
    """

    element: T | None = None
    sum: S | None = None
    format: str = ""


class _Levels(Generic[T, S]):
    """The algebra of ROUND for a schedule with several formats: one rounding a level."""

    def __init__(self, x: T, node: Reduce, domain: Domain[T, S], acc: Rounding) -> None:
        self.x, self.node, self.domain, self.acc = x, node, domain, acc

    def _rounding(self, fmt: str) -> Rounding:
        return self.acc if fmt == self.acc.format.short else Rounding.of(fmt)

    def closed(self, part: _Part[T, S]) -> T:
        """Return the value of a part, rounded if it is a sum."""
        if part.element is not None:
            return part.element
        if part.sum is None:
            return self.domain.total(self.x, self.node.axis)
        return self.domain.close(part.sum, self._rounding(part.format))

    def _opened(self, part: _Part[T, S], fmt: str) -> S | None:
        if part.element is None and (part.sum is None or part.format == fmt):
            return part.sum
        return self.domain.open(self.closed(part), self._rounding(fmt))

    def _merged(self, parts: Iterable[_Part[T, S]], fmt: str) -> _Part[T, S]:
        opened = [sum_ for part in parts if (sum_ := self._opened(part, fmt)) is not None]
        return _Part(None, self.domain.merge(opened) if opened else None, fmt)

    def zero(self, fmt: str) -> _Part[T, S]:
        """Return an empty sum."""
        return _Part(None, None, fmt)

    def leaf(self, i: int) -> _Part[T, S]:
        """Return an element of the operand."""
        axis, shape = self.node.axis, self.node.x.shape
        bounds = tuple((i, i + 1, 1) if a == axis else (0, n, 1) for a, n in enumerate(shape))
        return _Part(self.domain.view(View("slice", (self.node.x,), bounds), (self.x,)))

    def add(self, a: _Part[T, S], b: _Part[T, S], fmt: str) -> _Part[T, S]:
        """Join two sums."""
        return self._merged((a, b), fmt)

    def fused(
        self, acc: _Part[T, S], terms: list[_Part[T, S]], machine: str, fmt: str
    ) -> _Part[T, S]:
        """Join all terms of a step."""
        return self._merged((acc, *terms), fmt)

    def convert(self, value: _Part[T, S], fmt: str) -> _Part[T, S]:
        """Close a sum and open it in another format."""
        return _Part(None, self._opened(value, fmt), fmt)

    def any_order(self, values: list[_Part[T, S]], fmt: str) -> _Part[T, S]:
        """Join all values."""
        return self._merged(values, fmt)
