"""Which promises a graph keeps: determinism, batch invariance, layout invariance."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import numpy as np

from lastbit.choices import is_unordered
from lastbit.graph import Graph, Input, Reduce, topological
from lastbit.interpret.evaluate import evaluate
from lastbit.interpret.field import FieldDomain
from lastbit.interpret.field_values import UNDEFINED, Residue
from lastbit.interpret.policy import Policy
from lastbit.interpret.residues import FIELDS, Flags
from lastbit.schedule import deterministic

DRAWS = 2


@dataclass(frozen=True, slots=True)
class Varying:
    """A parameter of a schedule that depends on a size.

    Attributes:
        parameter: its name.
        symbol: the symbol that it depends on.
        values: number of values that it takes over the symbol's range.
        low: the smallest size of the symbol.
        high: the largest.
        cause: what is said of it where the values alone do not say it.
    """

    parameter: str
    symbol: str
    values: int
    low: int
    high: int
    cause: str = ""

    def __str__(self) -> str:
        if self.cause:
            return self.cause
        span = f"[{self.low}, {self.high}]"
        return f"{self.parameter} takes {self.values} values over {self.symbol} in {span}"


Finding = tuple[bool | None, str | None]


def deterministic_of(graph: Graph) -> Finding:
    """Return whether runs give the same bits, and why not."""
    for node in topological(graph.results):
        if isinstance(node, Reduce) and node.schedule and not deterministic(node.schedule):
            return False, "partial sums are added in the order in which they arrive"
        if isinstance(node, Reduce) and is_unordered(node.op):
            return False, "of equal elements no index is promised"
    return True, None


def batch_invariant_of(
    graph: Graph, rows: int | None, varying: Iterable[Varying], batch: str | None
) -> Finding:
    """Return whether a row of the results depends on the number or the values of other rows.

    Args:
        graph: the graph at small sizes.
        rows: the size of the batch symbol there; no other axis has it.
        varying: parameters that depend on sizes.
        batch: the batch symbol.
    """
    if batch is None or rows is None:
        return None, "the plan names no batch symbol"
    for parameter in varying:
        if parameter.symbol == batch and parameter.values > 1:
            return False, str(parameter)
    if rows > 1 and _rows_mix(graph, rows):
        return False, f"a row of `{graph.outputs[0]}` depends on other rows of the batch"
    return True, None


def layout_invariant_of(varying: Iterable[Varying], batch: str | None) -> Finding:
    """Return whether results depend on a size that counts devices or splits."""
    for parameter in varying:
        if parameter.symbol != batch and parameter.values > 1:
            return False, str(parameter)
    return True, None


class _OtherRows(FieldDomain):
    """A draw in which all rows but the first have other values."""

    def __init__(self, draw: int, rows: int) -> None:
        super().__init__(FIELDS[draw], draw)
        self.rows = rows
        self.other = FieldDomain(FIELDS[draw], draw + 1000)

    def input(self, node: Input) -> Residue:
        """Return the values of the draw in the first row, others elsewhere."""
        own, other = super().input(node), self.other.input(node)
        axes = [axis for axis, size in enumerate(node.shape) if size == self.rows]
        if not axes or own.p is None or other.p is None or own.q is None or other.q is None:
            return own
        first = _first_row(node.shape, axes[0])
        return Residue(
            np.where(first, own.p, other.p), np.where(first, own.q, other.q), digits=own.digits
        )


def _first_row(shape: tuple[int, ...], axis: int) -> Flags:
    index = np.arange(shape[axis]).reshape([-1 if a == axis else 1 for a in range(len(shape))])
    return np.broadcast_to(index == 0, shape)


def _rows_mix(graph: Graph, rows: int) -> bool:
    """Return whether the first row of a result changes when the other rows do."""
    for draw in range(DRAWS):
        with np.errstate(over="ignore"):
            plain = evaluate(graph.results, FieldDomain(FIELDS[draw], draw), Policy.BITS)
            moved = evaluate(graph.results, _OtherRows(draw, rows), Policy.BITS)
        for node, x, y in zip(graph.results, plain, moved, strict=True):
            axes = [axis for axis, size in enumerate(node.shape) if size == rows]
            if not axes:
                continue
            first = _first_row(node.shape, axes[0])
            defined = _defined(x, node.shape) & _defined(y, node.shape) & first
            a = np.broadcast_to(x.identity, node.shape)
            b = np.broadcast_to(y.identity, node.shape)
            if np.any((a != b) & defined):
                return True
    return False


def _defined(x: Residue, shape: tuple[int, ...]) -> Flags:
    if x.special is None:
        return np.ones(shape, np.bool_)
    return np.broadcast_to(x.special != UNDEFINED, shape)


def promises_of(
    before: Graph,
    after: Graph,
    rows: int | None,
    varying: tuple[Iterable[Varying], Iterable[Varying]],
    batch: str | None,
) -> Mapping[str, tuple[Finding, Finding]]:
    """Return each promise, before and after, with its cause where it fails.

    Args:
        before: the graph before, at small sizes.
        after: the graph after.
        rows: the size of the batch symbol there.
        varying: parameters that depend on sizes, before and after.
        batch: the batch symbol, or None.
    """
    old, new = tuple(varying[0]), tuple(varying[1])
    return {
        "deterministic": (deterministic_of(before), deterministic_of(after)),
        "batch_invariant": (
            batch_invariant_of(before, rows, old, batch),
            batch_invariant_of(after, rows, new, batch),
        ),
        "layout_invariant": (layout_invariant_of(old, batch), layout_invariant_of(new, batch)),
    }
