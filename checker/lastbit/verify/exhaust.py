"""Prove that two graphs have the same bits by trying every input."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from math import prod

import numpy as np

from lastbit.errors import LastbitError
from lastbit.formats import NEGATIVE_ZERO, Exact, Format, decode, identical
from lastbit.graph import Graph, Input, Node, Reduce, View, substitute, topological
from lastbit.interpret.exact import Objects, exact_array, ordinary
from lastbit.interpret.policy import Policy
from lastbit.verify.region import Region
from lastbit.verify.runs import run

MOST_INPUTS = 1 << 16  # combinations of input values that are tried
MOST_REGIONS = 8  # other graphs, at other sizes, that are tried


def exhausted(regions: Sequence[Region]) -> int | None:
    """Return the number of inputs tried if trying all proves equal bits, else None.

    It proves it where both graphs are elementwise (no reduction, no view), so that one element
    of each input decides one of the result, and all inputs together have at most 16 bits. Runs
    that are not ordinary are left to the domain; where the sides differ on some of these, there
    must be an ordinary run too, of more than zeros: else nothing would be proven.
    """
    if not regions or not all(_elementwise(region) for region in regions):
        return None
    distinct = {(*one.before.key(), *one.after.key()): one for one in _scalar(regions)}
    if len(distinct) > MOST_REGIONS:
        return None
    tried = 0
    for region in distinct.values():  # a constant may be a size, and so another one in each
        count = _exhausted(region)
        if count is None:
            return None
        tried += count
    return tried


def _scalar(regions: Sequence[Region]) -> Iterator[Region]:
    """Yield elementwise regions with one element in each input."""
    for region in regions:
        yield _reshaped(region, ())


def _exhausted(region: Region) -> int | None:
    if prod(2**node.format.bits for node in region.inputs) > MOST_INPUTS or not region.inputs:
        return None
    columns = [_values(node.format) for node in region.inputs]
    grid = np.meshgrid(*(np.arange(len(column)) for column in columns), indexing="ij")
    inputs: dict[str, Objects] = {}
    for node, column, at in zip(region.inputs, columns, grid, strict=True):
        inputs[node.name] = exact_array(column, (len(column),))[at.reshape(-1)]
    count = grid[0].size
    flat = _reshaped(region, (count,))
    one = _reshaped(region, ())

    def is_ordinary(i: int) -> bool:
        alone = {name: array[i : i + 1].reshape(()) for name, array in inputs.items()}
        return run(one, alone, Policy.BITS).ordinary

    try:
        both = run(flat, inputs, Policy.BITS)
        pairs = list(zip(both.before, both.after, strict=True))
        apart = [i for i in range(count) if not all(identical(x[i], y[i]) for x, y in pairs)]
        if any(is_ordinary(i) for i in apart):
            return None
        if apart:
            alike = (i for i in sorted({*range(count)} - {*apart}) if _is_nonzero(inputs, i))
            if not any(is_ordinary(i) for i in alike):
                return None
    except LastbitError:
        return None
    return count


def _is_nonzero(inputs: Mapping[str, Objects], i: int) -> bool:
    return any(array[i] != 0 for array in inputs.values())


def _elementwise(region: Region) -> bool:
    nodes = topological([*region.before.results, *region.after.results])
    return not any(isinstance(node, Reduce | View) for node in nodes)


def _reshaped(region: Region, shape: tuple[int, ...]) -> Region:
    new: dict[bytes, Node] = {
        node.key: Input(node.name, node.format, shape=shape) for node in region.inputs
    }

    def rebuilt(graph: Graph) -> Graph:
        nodes = substitute(graph.results, new)
        values = {name: nodes[node.key] for name, node in graph.values.items() if node.key in nodes}
        return Graph(values, graph.outputs)

    return Region(rebuilt(region.before), rebuilt(region.after))


def _values(fmt: Format) -> list[Exact]:
    """Return the ordinary values of a format."""
    out = []
    for code in range(2**fmt.bits):
        value = decode(code << fmt.padding, fmt)
        if value is not NEGATIVE_ZERO and ordinary(exact_array([value], ()), fmt):
            out.append(value)
    return out
