"""Run a reference kernel and hold its bits against those that its program predicts.

Where a function of a library takes part, the program is evaluated with the library's own values
of that function, at the arguments that occur: then every bit is decided, and must agree. Those
values in turn are held against the correctly rounded ones, in ulp.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from itertools import permutations
from typing import Any

import numpy as np

from lastbit.explicit_tree import Nested, Tree, tree_of_pairs
from lastbit.formats import F32, Format
from lastbit.graph import Graph, Reduce, native_rounding, topological
from lastbit.inference.arrays import canonical_codes, codes_of, native, plain_array
from lastbit.interpret.array import ArrayDomain, values_of
from lastbit.interpret.decide import rounded
from lastbit.interpret.evaluate import evaluate
from lastbit.interpret.policy import Policy
from lastbit.interpret.tensors import Held, Mapped, Tensor
from lastbit.kernels import Case, Kernel, KernelFileError, Library
from lastbit.predicting import draw_codes
from lastbit.round_array import Codes, decode_array, encode_array
from lastbit.rounding import Rounding
from lastbit.schedule import AnyOrder, Level, Schedule, levels, tree_of
from lastbit.text import Program, parse_program
from lastbit.ulp_array import ulp_distance_array

PLAIN_F32 = Rounding.of(F32)
MOST_ORDERS = 720  # of the pieces of a sum in any order: six pieces


def graph_of(kernel: Kernel, case: Case) -> Graph:
    """Return the graph that a kernel executes at a case."""
    return _program(kernel, case).bind(case.sizes)


def schedule_of(kernel: Kernel, case: Case) -> Schedule | None:
    """Return the bound schedule of the first sum of a kernel, or None where it has no sum."""
    nodes = topological(graph_of(kernel, case).results)
    found = (node.schedule for node in nodes if isinstance(node, Reduce) and node.op == "sum")
    return next(found, None)


def _program(kernel: Kernel, case: Case) -> Program:
    return parse_program(kernel.program(case), f"{kernel.name}, {case}", symbols=case.sizes)


def draw_inputs(kernel: Kernel, case: Case, seed: int) -> dict[str, Codes]:
    """Return codes of normal numbers for each input of a kernel, by name."""
    rng = np.random.default_rng(seed)
    drawn = {}
    for node in graph_of(kernel, case).inputs:
        codes = draw_codes(node.shape, node.format, "normal", rng)
        if node.name in kernel.positive:
            codes &= codes.dtype.type((1 << (node.format.bits - 1)) - 1)
        drawn[node.name] = codes
    return drawn


def input_names(kernel: Kernel, case: Case) -> tuple[str, ...]:
    """Return the inputs of a kernel, in the order of its tensors."""
    statements = _program(kernel, case).statements
    lines = {st.name: st.place.line for st in statements if st.expr is None}
    return tuple(sorted(lines, key=lines.__getitem__))


def observe(kernel: Kernel, case: Case, inputs: Mapping[str, Codes], device: str) -> list[Codes]:
    """Run a kernel on a device of torch, and return the codes of its results.

    Raises:
        KernelFileError: a result has another format than in the kernel's program.
    """
    graph = graph_of(kernel, case)
    formats = {node.name: node.format for node in graph.inputs}
    tensors = [
        native(inputs[name], formats[name], "torch", device) for name in input_names(kernel, case)
    ]
    results = kernel.run(*tensors, **case.parameters)
    results = results if isinstance(results, tuple) else (results,)
    found = []
    for (_, fmt), result in zip(result_formats(graph), results, strict=True):
        held = plain_array(result)
        assert held is not None, "a kernel returns tensors"
        codes = codes_of(*held, fmt)
        if isinstance(codes, str):
            raise KernelFileError(kernel.name, f"it returns {codes}")
        found.append(codes)
    return found


def result_formats(graph: Graph) -> list[tuple[str, Format]]:
    """Return the names and formats of the results of a graph."""
    found = []
    for name in graph.outputs:
        rounding = native_rounding(graph.values[name])
        assert rounding is not None, f"the result {name} is not rounded"
        found.append((name, rounding.format))
    return found


@dataclass
class Called:
    """How a function of a library did.

    Attributes:
        values: how many it was asked for.
        differ: how many of them are not correctly rounded.
        max_ulp: their greatest distance from the correctly rounded value, in ulp of binary32.
    """

    values: int = 0
    differ: int = 0
    max_ulp: int = 0


@dataclass(frozen=True)
class Prediction:
    """The predicted results of a kernel.

    Attributes:
        codes: for each result.
        called: by function, what the library gave; empty where functions are correctly rounded.
    """

    codes: list[Codes]
    called: dict[str, Called] = field(default_factory=dict)


class _LibraryDomain(ArrayDomain):
    """The array domain, with functions that a library on a device computes."""

    def __init__(
        self, inputs: Mapping[str, Any], library: Mapping[str, Library], device: str
    ) -> None:
        super().__init__(inputs)
        self.library, self.device = library, device
        self.called: dict[str, Called] = {}

    def map(self, fn: str, xs: tuple[Tensor, ...]) -> Tensor:
        """Return a function, as the library computes it."""
        if fn not in self.library:
            return super().map(fn, xs)
        (x,) = xs
        assert isinstance(x, Held), f"{fn} reads a value that is not rounded"
        arguments = encode_array(x.array.astype(np.float64), F32)
        found = plain_array(self.library[fn].call(native(arguments, F32, "torch", self.device)))
        assert found is not None, "a function returns a tensor"
        values = found[0].astype(np.float64)
        right = rounded(Mapped(fn, xs), PLAIN_F32).array.astype(np.float64)
        distance = ulp_distance_array(values, right, F32)
        called = self.called.setdefault(fn, Called())
        called.values += values.size
        called.differ += int((encode_array(values, F32) != encode_array(right, F32)).sum())
        called.max_ulp = max(called.max_ulp, int(distance.ulps.max(initial=0)))
        assert not distance.of_kind("nan").any(), f"{fn} gives NaN where there is a value"
        return Held(values, F32)


def predict(
    kernel: Kernel, case: Case, inputs: Mapping[str, Codes], device: str | None = None
) -> Prediction:
    """Return the results that a kernel's program predicts.

    Args:
        kernel: the kernel.
        case: its sizes and parameters.
        inputs: the codes of its inputs.
        device: the device whose library computes the functions that the kernel takes from it;
            None: all functions are correctly rounded.
    """
    return _evaluated(graph_of(kernel, case), inputs, {} if device is None else kernel.functions,
                      device or "cpu")  # fmt: skip


def _evaluated(
    graph: Graph, inputs: Mapping[str, Codes], library: Mapping[str, Library], device: str
) -> Prediction:
    arrays = {node.name: decode_array(inputs[node.name], node.format) for node in graph.inputs}
    domain = _LibraryDomain(arrays, library, device)
    values = evaluate(graph.results, domain, Policy.BITS)
    codes = [
        canonical_codes(encode_array(np.asarray(values_of(value), np.float64), fmt), fmt)
        for value, (_, fmt) in zip(values, result_formats(graph), strict=True)
    ]
    return Prediction(codes, domain.called)


def members(kernel: Kernel, case: Case, inputs: Mapping[str, Codes]) -> list[list[Codes]]:
    """Return the results for every order of the sums in any order: the set of possible results.

    Each order of the pieces gives one entry; an output may be that of one entry, and another
    output that of another.
    """
    program = _program(kernel, case)
    count = _loose_pieces(program.bind(case.sizes))
    orders = [order for order in permutations(range(count)) if count < 2 or order[0] < order[1]]
    assert 0 < len(orders) <= MOST_ORDERS, f"{count} pieces in any order"
    return [
        _evaluated(_ordered(program, order).bind(case.sizes), inputs, {}, "cpu").codes
        for order in orders
    ]


def _loose_pieces(graph: Graph) -> int:
    """Return how many pieces a sum in any order has."""
    for node in topological(graph.results):
        if isinstance(node, Reduce) and node.schedule is not None and _is_loose(node.schedule):
            assert node.acc is not None
            pieces = tree_of(node.schedule, node.length, node.acc.format.short)
            assert isinstance(pieces, tuple), "a sum of several pieces"
            return len(pieces) - 1
    raise AssertionError("the program has no sum in any order")


def _is_loose(schedule: Schedule) -> bool:
    return any(isinstance(level, AnyOrder) for level in levels(schedule))


def _ordered(program: Program, order: tuple[int, ...]) -> Program:
    """Return the program with its sums in any order done in one order."""
    statements = tuple(
        st if st.schedule is None else replace(st, schedule=_settled(st.schedule, order))
        for st in program.statements
    )
    return replace(program, statements=statements)


def _settled(schedule: Level, order: tuple[int, ...]) -> Level:
    if isinstance(schedule, AnyOrder):
        return _one_after_the_other(order)
    outer = getattr(schedule, "outer", None)
    return replace(schedule, outer=_settled(outer, order)) if outer is not None else schedule  # type: ignore[call-arg]


def _one_after_the_other(order: tuple[int, ...]) -> Tree:
    pairs: Nested = order[0]
    for i in order[1:]:
        pairs = (pairs, i)
    return tree_of_pairs(pairs)


@dataclass(frozen=True)
class Comparison:
    """A kernel's results beside those predicted.

    Attributes:
        outputs: elements compared.
        differ: how many do not have the predicted bits; in a set of results: how many are not
            in the set.
        distinct: how many different values were seen, so that zeros are told apart.
        max_ulp: the greatest distance from the prediction with correctly rounded functions, in
            ulp of the result's format; None where no function takes part.
        called: by function, what the library gave.
    """

    outputs: int
    differ: int
    distinct: int
    max_ulp: int | None
    called: Mapping[str, Called]


def compare(kernel: Kernel, case: Case, inputs: Mapping[str, Codes], device: str) -> Comparison:
    """Run a kernel, and compare every result with the prediction."""
    seen = observe(kernel, case, inputs, device)
    if not kernel.deterministic:
        possible = members(kernel, case, inputs)
        differ = sum(
            int(np.all([codes != member[i] for member in possible], axis=0).sum())
            for i, codes in enumerate(seen)
        )
        return Comparison(_count(seen), differ, _distinct(seen), None, {})
    own = predict(kernel, case, inputs, device if kernel.functions else None)
    differ = sum(int((a != b).sum()) for a, b in zip(seen, own.codes, strict=True))
    furthest = None
    if kernel.functions:
        right = predict(kernel, case, inputs)
        furthest = max(_distances(graph_of(kernel, case), seen, right.codes))
    return Comparison(_count(seen), differ, _distinct(seen), furthest, own.called)


def _count(results: list[Codes]) -> int:
    return sum(codes.size for codes in results)


def _distinct(results: list[Codes]) -> int:
    return sum(len(np.unique(codes)) for codes in results)


def _distances(graph: Graph, a: list[Codes], b: list[Codes]) -> Iterator[int]:
    for (_, fmt), x, y in zip(result_formats(graph), a, b, strict=True):
        distance = ulp_distance_array(decode_array(x, fmt), decode_array(y, fmt), fmt)
        yield int(distance.ulps.max(initial=0))


def distinct_runs(run: Callable[[], list[Codes]], repeats: int) -> int:
    """Return how many different results a kernel gives in so many runs on the same inputs."""
    return len({b"".join(codes.tobytes() for codes in run()) for _ in range(repeats)})
