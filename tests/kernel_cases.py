"""The package of reference kernels where lastbit is read from its folder and not installed."""

from __future__ import annotations

import importlib.util
from dataclasses import replace
from pathlib import Path

import numpy as np

import lastbit

if importlib.util.find_spec("lastbit.reference_kernels") is None:
    lastbit.__path__.append(str(Path(__file__).parents[1]))

from lastbit.kernel_runs import graph_of
from lastbit.kernels import Case, Kernel, load_kernels
from lastbit.round_array import Codes, encode_array


def cases(part: str) -> list[tuple[str, int]]:
    """Return the kernels whose names hold a part that this computer loads, with their cases."""
    return [
        (name, number)
        for name, kernel in load_kernels().items()
        if part in name
        for number in range(len(kernel.cases))
    ]


def outputs(kernel: Kernel, case: Case) -> int:
    """Return how many numbers a kernel returns."""
    return sum(int(np.prod(node.shape)) for node in graph_of(kernel, case).results)


def integers(kernel: Kernel, case: Case, seed: int) -> dict[str, Codes]:
    """Return small integers for each input, so that sums of products are exact in any order."""
    rng = np.random.default_rng(seed)
    drawn = {}
    for node in graph_of(kernel, case).inputs:
        least = 1 if node.name in kernel.positive else -2
        numbers = rng.integers(least, 3, node.shape).astype(np.float64)
        drawn[node.name] = encode_array(numbers, node.format)
    return drawn


def of_rows(kernel: Kernel, case: Case, rows: int) -> Case:
    """Return a case with another number of rows."""
    return replace(case, sizes={**case.sizes, "M": rows})


def first_rows(kernel: Kernel, case: Case, inputs: dict[str, Codes], rows: int) -> dict[str, Codes]:
    """Return the inputs of the first rows: each input that has rows begins with their axis."""
    shapes = {
        node.name: node.shape for node in graph_of(kernel, of_rows(kernel, case, rows)).inputs
    }
    return {name: codes[tuple(map(slice, shapes[name]))] for name, codes in inputs.items()}
