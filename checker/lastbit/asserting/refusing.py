"""Comparisons that prove nothing, because a wrong result would pass them as well.

Zeros, NaN, one number everywhere, an array beside itself: two broken programs agree on those as
readily as two right ones.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lastbit.comparing import compare
from lastbit.comparing.arrays import tensor_of
from lastbit.comparing.elements import Codes, Element, Mask
from lastbit.comparing.tensors import Tensor
from lastbit.errors import InputError, LastbitError, Problem
from lastbit.inference.arrays import is_torch

_BLOCK = 1 << 16


class RefusedComparisonError(LastbitError):
    """A comparison that a wrong result would pass too; it is no failure of what was compared.

    Attributes:
        assertion: the name of the assertion.
        reason: what would pass.
    """

    def __init__(self, assertion: str, reason: str) -> None:
        self.assertion, self.reason = assertion, reason
        super().__init__(
            f"{assertion} would prove nothing: {reason}. Compare values that a wrong result would "
            "miss, or give the reason why these must be so as trivial_because='...'."
        )


def check_reason(given: str | None) -> None:
    """Refuse an opt-out without a reason.

    Raises:
        InputError: the reason is empty, or no text.
    """
    if given is not None and not (isinstance(given, str) and given.strip()):
        remedy = "Write why zeros, NaN or one number everywhere are right here."
        raise InputError([Problem(f"trivial_because={given!r} gives no reason", remedy)])


def same_memory(a: Any, b: Any) -> str:
    """Return why two arrays are one and the same, or an empty text."""
    if a is b and hasattr(a, "shape") and not isinstance(a, np.generic):  # Python shares numbers
        return "both sides are the same object"
    where = _memory(a)
    if where is not None and where == _memory(b):
        return "both sides are the same memory"
    return ""


def _memory(value: Any) -> tuple[object, ...] | None:
    """Return where each element of an array lies; null where it has none, or that is not known."""
    if is_torch(value):
        strides = tuple(step * value.element_size() for step in value.stride())
        return (value.data_ptr(), tuple(value.shape), strides) if value.numel() else None
    if isinstance(value, np.ndarray):
        address = value.__array_interface__["data"][0]
        return (address, value.shape, value.strides) if value.size else None
    return None


def trivial(a: Tensor, b: Tensor) -> str:
    """Return why two tensors that agree say nothing, or an empty text."""
    if not b.size:
        return "there are no elements"
    for told, holds in (("zero", _zero), ("NaN", _nan)):
        if all(_each(tensor, holds) for tensor in (a, b)):
            return f"every element of both sides is {told}"
    if b.size > 1:
        first = next(b.blocks(1))[0]
        if _each(b, lambda _, codes: np.equal(codes, first)):
            digits = 2 * b.element.bytes
            return f"all {b.size:,} elements are the same number, 0x{int(first):0{digits}x}"
    return ""


def _zero(element: Element, codes: Codes) -> Mask:
    if element.format is not None and not element.format.has_zero:
        return np.zeros(codes.shape, np.bool_)
    return np.equal(element.distances(codes, codes * codes.dtype.type(0)), 0) & ~element.nan(codes)


def _nan(element: Element, codes: Codes) -> Mask:
    return element.nan(codes)


def _each(tensor: Tensor, holds: Callable[[Element, Codes], Mask]) -> bool:
    """Return whether something holds of each element; the first block often answers."""
    return all(holds(tensor.element, codes).all() for codes in tensor.blocks(_BLOCK))


def zeros_would_pass(b: Tensor, options: dict[str, Any]) -> bool:
    """Return whether zeros would pass in place of the first side."""
    zeros: NDArray[Any] = np.zeros(b.shape, b.element.code_type)
    return _passes(zeros, b, options)


def _passes(codes: NDArray[Any], b: Tensor, options: dict[str, Any]) -> bool:
    """Return whether codes of the second side's type would pass beside it."""
    if not options.get("scale"):  # most often the first elements are far enough away
        few = min(_BLOCK, b.size)
        first = next(b.blocks(few))
        part = compare(codes.reshape(-1)[:few], first, **{**options, "format": b.element.name})
        if not part.passes:
            return False
    whole = next(b.blocks(b.size)).reshape(b.shape)
    return compare(codes, whole, **{**options, "format": b.element.name}).passes


def copy_would_pass(value: Any, name: str, b: Tensor, options: dict[str, Any]) -> bool:
    """Return whether a copy of an input would pass in place of the first side."""
    given = tensor_of(value, name)
    if given.element != b.element or given.shape != b.shape or not b.size:
        return False
    return _passes(next(given.blocks(given.size)).reshape(b.shape), b, options)
