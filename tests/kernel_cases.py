"""The package of reference kernels where lastbit is read from its folder and not installed."""

from __future__ import annotations

import importlib.util
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import lastbit

if importlib.util.find_spec("lastbit.reference_kernels") is None:
    lastbit.__path__.append(str(Path(__file__).parents[1]))

from lastbit.kernel_runs import graph_of, observe
from lastbit.kernels import Case, Kernel, find_kernel, load_kernels
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


def rows_keep_their_bits(
    kernel: Kernel, case: Case, inputs: dict[str, Codes], counts: Iterable[int]
) -> bool:
    """Return whether the first rows have the bits by themselves that they have among all rows."""
    whole = observe(kernel, case, inputs, "cpu")
    same = True
    for rows in counts:
        part = first_rows(kernel, case, inputs, rows)
        few = observe(kernel, of_rows(kernel, case, rows), part, "cpu")
        same &= all(a[: len(b)].tobytes() == b.tobytes() for a, b in zip(whole, few, strict=True))
    return same


Refused = tuple[str, list[tuple[int, ...]], dict[str, int], str]


def refused_sizes(part: str) -> list[Refused]:
    """Return sizes that kernels of torch and of Triton refuse alike, with what they say.

    Args:
        part: of the names of the kernels: "torch" or "triton".
    """
    return [
        (f"sum_{part}_atomics", [(2, 6)], {"n": 4}, "K is 6, which 4 does not divide."),
        (
            f"rmsnorm_{part}_split",
            [(2, 6), (6,)],
            {"n": 4},
            "K is 6, which 4 segments do not divide.",
        ),
        (
            f"softmax_{part}_online",
            [(2, 96)],
            {"block": 64},
            "K is 96, and block 64 is no power of 2 that divides it.",
        ),
    ]


def refusal(name: str, shapes: Sequence[tuple[int, ...]], parameters: dict[str, int]) -> str:
    """Return why a kernel does not take inputs of these shapes."""
    import torch

    with pytest.raises(ValueError) as caught:  # noqa: PT011  the caller compares the text
        find_kernel(name).run(*(torch.ones(shape) for shape in shapes), **parameters)
    return str(caught.value)
