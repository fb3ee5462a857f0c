"""Compare tensors element by element: which bits differ, how far in ulp, and where."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

from lastbit.comparing.elements import ELEMENTS, Element
from lastbit.comparing.records import Comparison
from lastbit.errors import InputError, Problem, did_you_mean

__all__ = ["compare", "compare_files"]


def compare(
    a: Any,
    b: Any,
    *,
    format: str | None = None,  # noqa: A002 - the field's word
    max_ulp: float | None = None,
    scale: Literal["tensor", "row", "column"] | None = None,
) -> Comparison:
    """Compare two arrays of one type and shape.

    Args:
        a: of numpy, of torch on any device, or with DLPack.
        b: the other.
        format: what unsigned integers stand for, as `bf16`; null: what they are.
        max_ulp: the greatest distance that passes; null: only equal bits do.
        scale: measure, and hold `max_ulp`, in ulp at the largest magnitude of the tensor, row or
            column.

    Returns:
        what was found; true where it passes. Printed, it reads as the command's report.

    Raises:
        InputError: one is no array, or its elements cannot be compared.
    """
    from lastbit.comparing.arrays import tensor_of
    from lastbit.comparing.pairs import compare_sets
    from lastbit.comparing.scales import Scale
    from lastbit.comparing.tensors import read_as

    element = _element(format)
    tensors = [read_as(tensor_of(value, name), element) for name, value in (("a", a), ("b", b))]
    allowed = {} if max_ulp is None else {tensors[0].element.name: max_ulp}
    left, right = ({"": tensor} for tensor in tensors)
    return compare_sets(("a", "b"), left, right, allowed, Scale(scale) if scale else None)


def compare_files(
    a: str,
    b: str,
    *,
    element: str | None = None,
    shape: tuple[int, ...] | None = None,
    max_ulp: Mapping[str, float] | None = None,
    scale: Literal["tensor", "row", "column"] | None = None,
) -> Comparison:
    """Compare the tensors of two files by name.

    Args:
        a: a file: `.npy`, `.npz`, `.safetensors`, `.pt`, or raw bytes.
        b: the other.
        element: what the codes of raw files mean, as `bf16`.
        shape: of raw files.
        max_ulp: the greatest distance that passes, by format.
        scale: measure, and hold `max_ulp`, in ulp at the largest magnitude of the tensor, row or
            column.

    Raises:
        InputError: a file cannot be read.
    """
    from lastbit.comparing.pairs import compare_sets
    from lastbit.comparing.scales import Scale
    from lastbit.comparing.tensors import explained, read_tensors

    kind = _element(element)
    left, right = (read_tensors(path, kind, shape) for path in (a, b))
    with explained(f"{a}, {b}"):
        return compare_sets((a, b), left, right, max_ulp, Scale(scale) if scale else None)


def _element(name: str | None) -> Element | None:
    if name is None or name in ELEMENTS:
        return ELEMENTS[name] if name else None
    problem = Problem(f"{name!r} is no type of elements", did_you_mean(name, ELEMENTS))
    raise InputError([problem])
