"""Compare what two `.pt2` files hold of their weights: by name, type, shape and bits."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from lastbit.importers.imported import ImportedFileError
from lastbit.importers.pt2.archive import read_model
from lastbit.importers.pt2.constants import read_constants
from lastbit.importers.pt2.fields import Fields
from lastbit.importers.pt2.payload import Payload, Tensor, read_payload

CHUNK = 2**20  # elements that are compared at once
MOST_TIMES = 8  # elements compared in all, for each byte of the files

# Inputs of a graph that the file holds numbers of, and where their names stand.
HELD_BY = {
    "parameter": "parameter_name",
    "buffer": "buffer_name",
    "tensor_constant": "tensor_constant_name",
}


@dataclass(frozen=True, slots=True)
class Difference:
    """A weight of which two files hold different numbers.

    Attributes:
        name: in the program.
        original: in the files.
        text: how they differ, a sentence without its subject.
    """

    name: str
    original: str
    text: str

    def __str__(self) -> str:
        return f"`{self.original}` {self.text}"


def weight_names(path: str) -> dict[str, str]:
    """Return the names that a file gives to the weights of its graph, by the graph's names.

    Constants that the graph is read with are not among them: they are compared as a part of it.

    Raises:
        ImportedFileError: the file cannot be read.
    """
    model = read_model(path)
    fields = Fields(path)
    module = fields.member(model, "graph_module", dict)
    found, constants = {}, None
    for spec in fields.member(fields.member(module, "signature", dict), "input_specs", list):
        tag, held = fields.union(spec)
        if tag in HELD_BY:
            original = fields.member(held, HELD_BY[tag], str)
            if tag == "tensor_constant":
                constants = read_constants(path) if constants is None else constants
                if original in constants:
                    continue
            found[fields.name(fields.member(held, "arg", dict))] = original
    return found


def differences(before: str, after: str) -> Iterator[Difference]:
    """Yield the weights that are not the same numbers in two files.

    Args:
        before: a `.pt2` file.
        after: another one, whose graph has the same inputs.

    Raises:
        ImportedFileError: a file does not hold a weight as plain bytes.
    """
    first, second = read_payload(before), read_payload(after)
    names, others = weight_names(before), weight_names(after)
    left = MOST_TIMES * (first.size + second.size)
    seen: dict[tuple[Tensor, Tensor], str | None] = {}
    for name, ours in names.items():
        pair = first.tensor(ours), second.tensor(others.get(name, ours))
        key = replace(pair[0], name=""), replace(pair[1], name="")
        if key not in seen:
            left -= pair[0].count
            if left < 0:
                text = "its weights share storages so often that they are not compared"
                raise ImportedFileError(after, text, "Compare with --no-weights.")
            seen[key] = _difference(first, second, *pair)
        text_of = seen[key]
        if text_of is not None:
            yield Difference(name, pair[1].name, text_of)


def _difference(first: Payload, second: Payload, a: Tensor, b: Tensor) -> str | None:
    if a.type_and_shape != b.type_and_shape:
        return f"is {a.type_and_shape} before and {b.type_and_shape} after"
    count, index, bits = _counted(first.bits(a), second.bits(b), len(a.sizes))
    if index is None:
        return None
    first.verify(a)
    second.verify(b)
    places = ", ".join(map(str, index))
    return f"differs in {count} of {a.count} elements, first at [{places}]: {bits}"


def _counted(
    a: np.ndarray[Any, Any], b: np.ndarray[Any, Any], rank: int
) -> tuple[int, tuple[int, ...] | None, str]:
    """Return how many elements differ, the index of the first, and its bits on both sides."""
    count, index, bits = 0, None, ""
    for start, block in _blocks(a.shape[:rank]):
        ours, theirs = a[block], b[block]
        unequal = ours != theirs
        if unequal.ndim > rank:
            unequal = unequal.any(-1)
        found = int(np.count_nonzero(unequal))
        if found and index is None:
            at = np.unravel_index(int(np.argmax(unequal)), unequal.shape)
            index = tuple(int(i) + j for i, j in zip(at, start, strict=True))
            bits = f"{_hex(ours[at])} -> {_hex(theirs[at])}"
        count += found
    return count, index, bits


def _blocks(shape: tuple[int, ...]) -> Iterator[tuple[tuple[int, ...], tuple[slice, ...]]]:
    """Yield blocks of a shape in the order of its elements: where each begins, and the block."""
    if math.prod(shape) == 0:
        return
    axis = len(shape)  # the axes from this one on are small enough together
    while axis and math.prod(shape[axis - 1 :]) <= CHUNK:
        axis -= 1
    if axis == 0:
        yield (0,) * len(shape), tuple(slice(0, size) for size in shape)
        return
    rest = shape[axis:]
    each = max(1, CHUNK // math.prod(rest))
    whole = tuple(slice(0, size) for size in rest)
    for outer in np.ndindex(*shape[: axis - 1]):
        for at in range(0, shape[axis - 1], each):
            head = tuple(slice(i, i + 1) for i in outer)
            yield (*outer, at, *(0,) * len(rest)), (*head, slice(at, at + each), *whole)


def _hex(item: Any) -> str:
    """Return the bits of an element; one of 16 bytes is two numbers, the second first."""
    parts = item.reshape(-1)[::-1]
    return "0x" + "".join(f"{int(part):0{2 * part.itemsize}x}" for part in parts)
