"""Hypothesis strategies: small random graphs, and values of their inputs.

A graph has one to three inputs, a few exact operations with roundings between them, and one or two
rounded results. Functions without rational values (exp, silu, sqrt) are rounded at once, so that
the exact domain can decide every comparison. No size exceeds 12 elements.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from math import prod
from typing import Any

from hypothesis import strategies as st

from lastbit.formats import FORMATS, Format
from lastbit.graph import (
    Graph,
    Input,
    Node,
    Reduce,
    Round,
    ShapeError,
    apply,
    broadcast,
    broadcast_shapes,
    concat,
    const,
    native_rounding,
    reshape,
    take,
    transpose,
)
from lastbit.interpret.exact import exact_array
from lastbit.rounding import Rounding
from lastbit.schedule import parse_schedule

NAMES = ("bf16", "f16", "f32", "e4m3fn", "e5m2")
BINARY = ("add", "sub", "mul", "div", "max", "min")
UNARY = ("neg", "abs", "relu")
ROUNDED = ("exp", "silu", "sqrt")
SCHEDULES = (
    "seq",
    "pairwise(1)",
    "pairwise(2)",
    "lanes(2)",
    "split(2)",
    "split(size=2, inner=pairwise(1), outer=seq)",
    "split(2, partials=bf16)",
    "promote(2, f32)",
)
CONSTANTS = tuple(
    Fraction(value) for value in ("2", "1/2", "-4", "1/8", "3", "-3/4", "1", "0", "6", "1/3")
)
MOST_ELEMENTS = 12


def formats() -> st.SearchStrategy[Format]:
    """Number formats: bf16, f16, f32, e4m3fn and e5m2."""
    return st.sampled_from([FORMATS[name] for name in NAMES])


@st.composite
def roundings(draw: st.DrawFn) -> Rounding:
    """Roundings, mostly to nearest even."""
    fmt = draw(formats())
    mode = draw(st.sampled_from(("rne",) * 5 + ("rna", "rtz", "rup", "rdn")))
    overflow = draw(st.sampled_from((None, None, None, "saturate")))
    return Rounding.of(fmt, mode=mode, overflow=overflow)


@st.composite
def graphs(draw: st.DrawFn, steps: int = 7) -> Graph:
    """Closed graphs.

    Args:
        draw: given by hypothesis.
        steps: the most nodes that are drawn besides inputs.
    """
    rows, columns = draw(st.integers(1, 2)), draw(st.integers(1, 6))
    shapes = st.sampled_from(((rows, columns), (rows, columns), (rows, 1), (1, columns)))
    inputs = [
        Input(f"x{i}", draw(formats()), shape=draw(shapes)) for i in range(draw(st.integers(1, 3)))
    ]
    nodes: list[Node] = list(inputs)
    for _ in range(draw(st.integers(1, steps))):
        nodes.append(draw(_steps(nodes)))
    ends = [nodes[-1], *draw(st.lists(st.sampled_from(nodes), max_size=1))]
    outputs = {f"y{i}": draw(_rounded(node)) for i, node in enumerate(ends)}
    return Graph({**{node.name: node for node in inputs}, **outputs}, tuple(outputs))


@st.composite
def _rounded(draw: st.DrawFn, node: Node) -> Node:
    own = native_rounding(node)
    return node if own is not None and draw(st.booleans()) else Round(node, draw(roundings()))


@st.composite
def _steps(draw: st.DrawFn, nodes: Sequence[Node]) -> Node:
    """One more node on those there are; recent ones are taken more often."""
    x = draw(st.one_of(st.just(nodes[-1]), st.sampled_from(list(nodes))))
    kinds = ("binary",) * 4 + ("constant",) * 3 + ("round",) * 3 + ("unary", "rounded", "select")
    kind = draw(st.sampled_from((*kinds, "sum", "sum", "extreme", "view", "view")))
    if kind == "constant":
        c = const(draw(st.sampled_from(CONSTANTS)))
        pair = (x, c) if draw(st.booleans()) or c.value == 0 else (c, x)
        fn = draw(st.sampled_from(("mul", "mul", "add", "sub", "div", "max")))
        return apply("add" if fn == "div" and c.value == 0 else fn, *pair)
    if kind in ("binary", "select"):
        y = draw(st.sampled_from([y for y in nodes if _fit(x, y)]))
        fn = draw(st.sampled_from(BINARY))
        if kind == "binary":
            return apply(fn, x, y)
        test = apply(draw(st.sampled_from(("less", "less_equal"))), x, y)
        return apply("select", test, *draw(st.permutations((x, y))))
    if kind == "unary":
        return apply(draw(st.sampled_from(UNARY)), x)
    if kind == "rounded":
        return Round(apply(draw(st.sampled_from(ROUNDED)), x), draw(roundings()))
    if kind == "sum":
        return draw(_sums(x))
    if kind == "extreme":
        return Reduce(draw(st.sampled_from(("max", "min"))), x, draw(_axes(x)))
    if kind == "view":
        return draw(_views(x))
    return Round(x, draw(roundings()))


@st.composite
def _sums(draw: st.DrawFn, x: Node) -> Node:
    axis = draw(_axes(x))
    if draw(st.integers(0, 3)) == 0:
        return Reduce("sum", x, axis)
    acc = Rounding.of(draw(st.sampled_from(("f32", "f32", "bf16", "f16", "e5m2"))))
    return Reduce("sum", x, axis, parse_schedule(draw(st.sampled_from(SCHEDULES))), acc)


@st.composite
def _views(draw: st.DrawFn, x: Node) -> Node:
    axis = draw(_axes(x))
    size = x.shape[axis]
    kind = draw(st.sampled_from(("swap", "halves", "flat", "slice", "twice", "transpose")))
    if kind == "transpose":
        return transpose(x, tuple(reversed(range(len(x.shape)))))
    if kind == "flat":
        return reshape(x, (1, prod(x.shape)))
    if kind == "slice":
        start = draw(st.integers(0, size - 1))
        return take(x, axis, start, draw(st.integers(start + 1, size)), draw(st.integers(1, 2)))
    if kind == "twice" and 2 * prod(x.shape) <= MOST_ELEMENTS:
        return concat((x, draw(st.sampled_from((x, apply("neg", x))))), axis)
    if kind == "halves" and size > 1:
        cut = draw(st.integers(1, size - 1))
        return concat((take(x, axis, cut, size), take(x, axis, 0, cut)), axis)
    if size == 1 and 2 * prod(x.shape) <= MOST_ELEMENTS:
        return broadcast(x, (*x.shape[:axis], 2, *x.shape[axis + 1 :]))
    return reshape(reshape(x, (prod(x.shape),)), x.shape)


def _axes(x: Node) -> st.SearchStrategy[int]:
    return st.integers(0, len(x.shape) - 1)


def _fit(x: Node, y: Node) -> bool:
    try:
        return prod(broadcast_shapes(x.shape, y.shape)) <= MOST_ELEMENTS
    except ShapeError:
        return False


@st.composite
def inputs_of(draw: st.DrawFn, graph: Graph) -> dict[str, Any]:
    """Values for the inputs of a graph: zero, or normal numbers of moderate size."""
    out = {}
    for node in graph.inputs:
        count = prod(node.shape)
        words = draw(st.lists(st.integers(0, (1 << 32) - 1), min_size=count, max_size=count))
        out[node.name] = exact_array([value_of(word, node.format) for word in words], node.shape)
    return out


def value_of(word: int, fmt: Format) -> Fraction:
    """Return the number of a float format that the bits of a word choose; 0 gives 0.

    The low bits choose sign and exponent, from -3 to 4; the others the digits behind the first.
    """
    word, kind = divmod(word, 16)
    if word == kind == 0:
        return Fraction(0)
    digits = fmt.precision - 1
    significand = (1 << digits) + (word & ((1 << digits) - 1))
    size = significand * Fraction(2) ** (kind // 2 - 3 - digits)
    return -size if kind % 2 else size
