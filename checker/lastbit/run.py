"""Run a graph on exact inputs."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from fractions import Fraction

from lastbit.errors import InputError, Problem, did_you_mean
from lastbit.formats import Exact, Format, as_exact, bits_text, identical
from lastbit.graph import Graph, native_rounding
from lastbit.interpret.evaluate import evaluate
from lastbit.interpret.exact import ExactDomain, Objects, exact_array
from lastbit.interpret.policy import Policy
from lastbit.rounding import Rounding, round_exact


def run_graph(
    graph: Graph,
    inputs: Mapping[str, object],
    names: Iterable[str] | None = None,
    policy: Policy = Policy.BITS,
) -> dict[str, Objects]:
    """Return values of a graph, evaluated in the exact domain.

    Args:
        graph: the graph.
        inputs: for each input its values in row-major order, nested or flat, as exact numbers;
            a single number fills the input.
        names: the values wanted; by default the results.
        policy: which roundings are carried out.

    Returns:
        arrays of exact numbers: a Fraction, a special float, or, where nothing rounds, an
        enclosed real.

    Raises:
        InputError: an input is missing, has another number of values, or holds a value that its
            format does not; or the graph has no value of a name.
    """
    arrays = {}
    for node in graph.inputs:
        if node.name not in inputs:
            raise InputError([Problem(f"the input `{node.name}` has no values")])
        values = list(_flat(node.name, inputs[node.name]))
        count = math.prod(node.shape)
        if len(values) == 1:
            values *= count
        if len(values) != count:
            message = f"the input `{node.name}` has {len(values)} values, not {count}"
            raise InputError([Problem(message)])
        for value in values:
            _check(node.name, value, node.format)
        arrays[node.name] = exact_array(values, node.shape)
    wanted = tuple(graph.outputs if names is None else names)
    for name in wanted:
        if name not in graph.values:
            remedy = did_you_mean(name, graph.values)
            raise InputError([Problem(f"the graph has no value {name!r}", remedy)])
    nodes = [graph.values[name] for name in wanted]
    values_of = evaluate(nodes, ExactDomain(arrays), policy)
    return {name: value.array for name, value in zip(wanted, values_of, strict=True)}


def run_bits(
    graph: Graph, inputs: Mapping[str, object], names: Iterable[str] | None = None
) -> dict[str, tuple[str, ...]]:
    """Return the bits of values of a graph, element by element in row-major order.

    Args:
        graph: the graph.
        inputs: as for `run_graph`.
        names: the values wanted, each of a format; by default the results.

    Raises:
        InputError: an input does not fit, or a value is not rounded to a format.
    """
    found = run_graph(graph, inputs, names)
    bits = {}
    for name, array in found.items():
        rounding = native_rounding(graph.values[name])
        if rounding is None:
            message = f"the value `{name}` is not rounded, so it has no bits"
            raise InputError([Problem(message, "Take its number, with `run_graph`.")])
        bits[name] = tuple(bits_text(value, rounding.format) for value in array.flat)
    return bits


def _flat(name: str, values: object) -> Iterable[Exact]:
    if isinstance(values, Iterable) and not isinstance(values, str | bytes):
        for value in values:
            yield from _flat(name, value)
    elif isinstance(values, int | float | Fraction):
        yield as_exact(Fraction(values) if isinstance(values, int) else values)
    else:
        message = f"the input `{name}` holds {values!r}, which is no number"
        raise InputError(
            [Problem(message, "Give an int, a float or a Fraction, or lists of them.")]
        )


def _check(name: str, value: Exact, fmt: Format) -> None:
    if not identical(round_exact(value, Rounding.of(fmt)), value):
        message = f"the input `{name}` holds {value}, which is no value of {fmt.name}"
        raise InputError([Problem(message, "Round it first, with `round_exact`.")])
