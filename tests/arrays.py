"""Programs on arrays of binary64 numbers, in both domains."""

from __future__ import annotations

import math

import numpy as np

from lastbit.formats import as_exact
from lastbit.graph import Graph
from lastbit.interpret.array import ArrayDomain, Tensor, values_of
from lastbit.interpret.evaluate import results
from lastbit.interpret.exact import ExactDomain, Objects, exact_array
from lastbit.interpret.policy import Policy
from lastbit.round_array import round_array
from lastbit.rounding import Rounding

SEED = 20261
INF = math.inf
Inputs = dict[str, np.ndarray]


def rounded(values: object, fmt: str) -> np.ndarray:
    """Return values of a format, in binary64."""
    array = np.asarray(values, np.float64)
    return round_array(array, Rounding.of(fmt, overflow="saturate"))


def drawn(graph: Graph, seed: int = SEED, spread: float = 1.0) -> Inputs:
    """Draw inputs: normal numbers, some of them scaled far up or down."""
    rng = np.random.default_rng(seed)
    inputs = {}
    for node in graph.inputs:
        scale = 2.0 ** rng.integers(-3, 4, node.shape)
        inputs[node.name] = rounded(
            rng.standard_normal(node.shape) * scale * spread, node.format.short
        )
    return inputs


def run(graph: Graph, inputs: Inputs, policy: Policy = Policy.BITS) -> dict[str, Tensor]:
    """Return the results of a graph in the array domain."""
    return results(graph, ArrayDomain(inputs), policy)


def run_exactly(graph: Graph, inputs: Inputs, policy: Policy = Policy.BITS) -> dict[str, Objects]:
    """Return the results of a graph in the exact domain."""
    exact = {
        name: exact_array([as_exact(v) for v in array.ravel().tolist()], array.shape)
        for name, array in inputs.items()
    }
    found = results(graph, ExactDomain(exact), policy)
    return {k: np.broadcast_to(v.array, graph.values[k].shape) for k, v in found.items()}


def words(array: np.ndarray) -> np.ndarray:
    """Return the bits of float64 numbers; every NaN has the same."""
    return np.where(np.isnan(array), np.float64("nan"), array).view(np.uint64)


def differing(graph: Graph, inputs: Inputs, policy: Policy = Policy.BITS) -> list[object]:
    """Return the results in which the two domains differ, with both values."""
    want, got = run_exactly(graph, inputs, policy), run(graph, inputs, policy)
    found: list[object] = []
    for name in graph.outputs:
        exact = np.array([float(v) for v in want[name].flat]).reshape(want[name].shape)
        array = values_of(got[name])
        for index in zip(*np.nonzero(words(exact) != words(array)), strict=True):
            found.append((name, index, exact[index].hex(), array[index].hex()))
    return found
