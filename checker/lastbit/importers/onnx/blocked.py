"""Find the weights whose channels ONNX Runtime moved into blocks, for convolutions on the CPU.

A kernel of [O, I, H, W] becomes [O/b, I/b, H, W, b of I, b of O], or [O/b, I, H, W, b of O] where
the channels of the image are in no blocks; b is 8 or 16, by the vectors of the processor. Its name
is lost, so that only its numbers say which weight it was.

Source: MlasReorderFilterOIHWBiBo and MlasReorderFilterOIHWBo (ONNX Runtime, core/mlas/lib/
reorder.cpp) and core/optimizer/nchwc_transformer.cc, version 1.32.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lastbit.importers.imported import Imported
from lastbit.importers.onnx.model import Model, Weight, raw_data
from lastbit.importers.onnx.reading import read_model

BLOCKED_DOMAIN = "com.microsoft.nchwc"
BLOCKS = (8, 16)
_STORED = {"f16": "<f2", "f32": "<f4"}

Array = NDArray[Any]


def unblocked(before: Imported, after: Imported) -> dict[str, str]:
    """Return by weight of the second model the weight of the first that it is in blocks.

    Args:
        before: a model; its file is opened again.
        after: the one that ONNX Runtime made of it; so is its file.

    Raises:
        InputError: a file cannot be read any more.
    """
    second = read_model(after.file)
    kernels = {
        node.reads[1]
        for node in second.nodes
        if (node.domain, node.op) == (BLOCKED_DOMAIN, "Conv") and len(node.reads) > 1
    }
    names = {original: name for name, original in after.weights.items() if original in kernels}
    if not names:
        return {}
    first = read_model(before.file)
    shapes: dict[tuple[int, ...], list[str]] = {}
    for name, original in before.weights.items():
        weight = first.weights.get(original)
        if weight is not None:
            shapes.setdefault(_shape(weight), []).append(name)
    found = {}
    for original, name in names.items():
        weight = second.weights.get(original)
        if weight is None:
            continue
        known = {array.tobytes() for array in orders(_numbers(second, weight))}
        for other in shapes.get(_shape(weight), ()):
            array = _numbers(first, first.weights[before.weights[other]])
            if array is not None and array.tobytes() in known:
                found[name] = other
                break
    return found


def _shape(weight: Weight) -> tuple[int, ...]:
    return tuple(weight.tensor.dims)


def _numbers(model: Model, weight: Weight) -> Array | None:
    """Return the numbers of a weight in f32, which holds those of f16; None where none are here."""
    dtype = _STORED.get(weight.info.type)
    raw = raw_data(model, weight) if dtype is not None and weight.sparse is None else None
    shape = _shape(weight)
    if dtype is None or raw is None or len(raw) != np.dtype(dtype).itemsize * int(np.prod(shape)):
        return None
    return np.frombuffer(raw, dtype).reshape(shape).astype(np.float32)


def orders(kernel: Array | None) -> Iterator[Array]:
    """Yield a kernel as it was before its channels were moved, for each way to move them."""
    if kernel is None or kernel.ndim < 3:
        return
    outs, ins, *places = kernel.shape
    for block in BLOCKS:
        if outs % block:
            continue
        yield _restored(kernel.reshape(outs // block, ins, *places, block), kernel.shape)
        if ins % block == 0:
            both = kernel.reshape(outs // block, ins // block, *places, block, block)
            inner = np.moveaxis(both, -2, 2)  # the channels of the image, behind their block
            merged = inner.reshape(outs // block, ins, *places, block)
            yield _restored(merged, kernel.shape)


def _restored(kernel: Array, shape: Sequence[int]) -> Array:
    """Return a kernel whose last axis is moved behind its first, with which it is one."""
    return np.ascontiguousarray(np.moveaxis(kernel, -1, 1).reshape(shape))
