"""The terms of the sums of a graph, as products of elements of its inputs.

A witness for a sum must give each of its terms a value. Roundings are passed over, and index maps
followed, so that the terms of `(x @ w) + r` are x[0]*w[0], x[1]*w[1] ... and r. A sum of something
else (a function of inputs, a product of sums) has terms that no input sets: it is left out.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from fractions import Fraction
from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lastbit.graph import Const, Graph, Input, Map, Node, Reduce, Round, View, topological
from lastbit.interpret.views import view_array

MOST_TERMS = 1 << 16  # terms held by all elements of one value

Element = tuple[str, int]  # an input, and the place of the element in it
Sums = NDArray[Any]  # of `Sum`, or None where an element is no sum of products


@dataclass(frozen=True, slots=True)
class Term:
    """A product of a constant and elements of inputs."""

    factor: Fraction
    elements: tuple[Element, ...]


@dataclass(frozen=True, slots=True)
class Sum:
    """The exact sum of some terms."""

    terms: tuple[Term, ...]


def sums_of(graph: Graph) -> Iterator[tuple[Term, ...]]:
    """Yield the terms of each rounded sum of a graph, of one element of it, outer sums first."""
    nodes = list(topological(graph.results))
    known: dict[bytes, Sums] = {}
    found: dict[tuple[Term, ...], None] = {}
    for node in nodes:
        known[node.key] = _sums(node, known)
        if _is_sum(node) and known[node.key].size:
            first = known[node.key].flat[0]
            if first is not None:
                found[first.terms] = None
    yield from reversed(found)


def _is_sum(node: Node) -> bool:
    if isinstance(node, Round):
        return isinstance(node.x, Map) and node.x.fn in ("add", "sub")
    return isinstance(node, Reduce) and node.op == "sum" and node.acc is not None


def _sums(node: Node, known: Mapping[bytes, Sums]) -> Sums:
    match node:
        case Input(name=name):
            one = Fraction(1)
            places = range(prod(node.shape))
            return _array([Sum((Term(one, ((name, i),)),)) for i in places], node.shape)
        case Const(value=Fraction() as value):
            return _filled(Sum((Term(value, ()),)) if value else Sum(()), node.shape)
        case Map(fn=fn, xs=xs) if fn in _FUNCTIONS:
            arrays = np.broadcast_arrays(*(known[x.key] for x in xs))
            pairs = zip(*(array.flat for array in arrays), strict=True)
            values = [None if None in pair else _FUNCTIONS[fn](*pair) for pair in pairs]
            return _array(values, node.shape)
        case Round(x=x):
            return known[x.key]
        case Reduce(op="sum", x=x, axis=axis):
            return _along(np.broadcast_to(known[x.key], x.shape), axis, node)
        case View(xs=xs):
            full = (np.broadcast_to(known[x.key], x.shape) for x in xs)
            return np.asarray(view_array(node, tuple(full)))
    return _filled(None, node.shape)


def _along(array: Sums, axis: int, node: Node) -> Sums:
    columns = np.moveaxis(array, axis, -1).reshape(-1, array.shape[axis])
    out: list[Sum | None] = []
    for row in columns.tolist():
        terms = None if None in row else tuple(term for sum_ in row for term in sum_.terms)
        out.append(None if terms is None or len(terms) * len(columns) > MOST_TERMS else Sum(terms))
    return _array(out, node.shape)


def _added(a: Sum, b: Sum) -> Sum:
    return Sum((*a.terms, *b.terms))


def _negated(a: Sum) -> Sum:
    return Sum(tuple(Term(-term.factor, term.elements) for term in a.terms))


def _product(a: Sum, b: Sum) -> Sum | None:
    """Return a product, one operand of which is a single term."""
    if len(a.terms) > 1 and len(b.terms) > 1:
        return None
    return Sum(
        tuple(
            Term(x.factor * y.factor, (*x.elements, *y.elements)) for x in a.terms for y in b.terms
        )
    )


def _quotient(a: Sum, b: Sum) -> Sum | None:
    """Return a sum divided by a constant."""
    if len(b.terms) != 1 or b.terms[0].elements:
        return None
    return _product(a, Sum((Term(1 / b.terms[0].factor, ()),)))


_FUNCTIONS: dict[str, Any] = {
    "add": _added,
    "sub": lambda a, b: _added(a, _negated(b)),
    "neg": _negated,
    "mul": _product,
    "div": _quotient,
}


def _filled(value: Sum | None, shape: tuple[int, ...]) -> Sums:
    return _array([value] * prod(shape), shape)


def _array(values: list[Any], shape: tuple[int, ...]) -> Sums:
    out = np.empty(len(values), object)
    out[:] = values
    return out.reshape(shape)
