"""The names that ONNX Runtime gives to values that it keeps in float32.

A value named `InsertedPrecisionFreeCast_X` is X in float32. Where a conversion from X makes it, it
is X. Where an operator makes it, the rounding of X to its narrow format was dropped; X may still
exist beside it, made from it by a conversion. A weight `FusedBack_X` is the weight X, converted
when the file was written.

Source: onnxruntime 1.32, observed in the files that it writes
(`SessionOptions.optimized_model_filepath`), at every optimisation level, "disabled" included.
"""

from __future__ import annotations

import struct
from collections import Counter
from dataclasses import dataclass

from lastbit.importers.onnx.model import TYPES, Model, Weight, raw_data

KEPT = "InsertedPrecisionFreeCast_"
CONVERTED = ("FusedBack_", KEPT)


class Renames:
    """Which names stand for other ones in a model.

    Attributes:
        originals: the name of a value whose rounding was dropped, by that of its float32 form.
        narrowed: by the name of a float32 form that nothing but the conversion to X reads: X, and
            its type.
    """

    def __init__(self, model: Model) -> None:
        self.originals: dict[str, str] = {}
        self.narrowed: dict[str, tuple[str, str]] = {}
        kept = {n for node in model.nodes for n in node.gives if n.startswith(KEPT)}
        if not kept:
            return
        known = {v.name for v in model.inputs} | model.weights.keys()
        known |= {name for node in model.nodes for name in node.gives}
        readers = Counter(name for node in model.nodes for name in node.reads)
        readers.update(info.name for info in model.outputs)
        onto: dict[str, tuple[str, str]] = {}
        for node in model.nodes:
            if node.op == "Cast" and not node.domain and len(node.reads) == len(node.gives) == 1:
                attributes = {a.name: a.i for a in node.proto.attribute}
                onto[node.reads[0]] = node.gives[0], TYPES.get(attributes.get("to", 0), "")
        for name in kept:
            base = name.removeprefix(KEPT)
            if base not in known:
                self.originals[name] = base
            elif onto.get(name, ("", ""))[0] == base and readers[name] == 1:
                self.narrowed[name] = onto[name]


@dataclass(frozen=True, slots=True)
class Narrow:
    """The weight that a converted one was made from: name, type, and data in little-endian."""

    name: str
    type: str
    data: bytes


def kept_in_narrow(model: Model, name: str, weight: Weight) -> Narrow | None:
    """Return the weight that a converted one was made from.

    Returns:
        None where the name does not say so, a number of the weight is no binary16, or the file
        holds the other weight with other numbers.
    """
    prefix = next((p for p in CONVERTED if name.startswith(p)), None)
    if prefix is None or weight.info.type != "f32" or weight.sparse is not None:
        return None
    base = name.removeprefix(prefix)
    narrow = _as_f16(model, weight)
    if narrow is None:
        return None
    other = model.weights.get(base)
    if other is not None and (other.info.type != "f16" or narrow != _raw(model, other, 2)):
        return None
    return Narrow(base, "f16", narrow)


def _as_f16(model: Model, weight: Weight) -> bytes | None:
    """Return the numbers of a binary32 weight in binary16, or None where one does not fit."""
    import numpy as np

    raw = _raw(model, weight, 4)
    if raw is None or len(raw) % 4:
        return None
    array = np.frombuffer(raw, "<f4")
    with np.errstate(over="ignore"):
        narrow = array.astype("<f2")
    same = narrow.astype("<f4").view(np.uint32) == array.view(np.uint32)
    return narrow.tobytes() if same.all() else None


def _raw(model: Model, weight: Weight, width: int) -> bytes | None:
    """Return the data of a float weight that stands in the file, or None."""
    raw = raw_data(model, weight)
    if raw is not None or weight.tensor.external_data:
        return raw
    if width == 4:
        return struct.pack(f"<{len(weight.tensor.float_data)}f", *weight.tensor.float_data) or None
    bits = [number & 0xFFFF for number in weight.tensor.int32_data]
    return struct.pack(f"<{len(bits)}H", *bits) or None
