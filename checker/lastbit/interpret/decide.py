"""Rounding of unrounded tensors: by enclosures where these decide, else by the exact core."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from lastbit.formats import F64
from lastbit.interpret.intervals import Floats, Interval, Mask
from lastbit.interpret.tensors import (
    MOST_EXACT,
    ArrayLimitError,
    Held,
    Mapped,
    Tensor,
    pieces,
)
from lastbit.round_array import round_array
from lastbit.rounding import Mode, Rounding, round_exact

PLAIN_F64: Final = Rounding.of(F64)


def rounded(x: Tensor, rounding: Rounding) -> Held:
    """Return the elements of a tensor, rounded as the exact core rounds them.

    Raises:
        ArrayLimitError: too many elements are not decided by their enclosures.
    """
    with np.errstate(all="ignore"):
        if isinstance(x, Held):
            return Held(round_array(x.array, rounding), rounding.format)
        ready = _rounded_by_binary64(x, rounding)
        if ready is not None:
            return Held(ready, rounding.format)
        out = np.empty(x.shape)
        undecided = np.zeros(x.shape, np.bool_)
        for index, part in pieces(x):
            out[index], undecided[index] = _decided(part, rounding)
        places = np.flatnonzero(undecided)
        if places.size > MOST_EXACT:
            what = f"{places.size} roundings to {rounding} are not decided by enclosures"
            raise ArrayLimitError(what, MOST_EXACT)
        if places.size:
            memo: dict[Any, float] = {}
            values = x.exact_at(places)
            out.reshape(-1)[places] = [_rounded_once(v, rounding, memo) for v in values]
        return Held(out, rounding.format)


def _rounded_once(value: Any, rounding: Rounding, memo: dict[Any, float]) -> float:
    key = type(value), value
    if key not in memo:
        memo[key] = float(round_exact(value, rounding))
    return memo[key]


def _decided(x: Interval, rounding: Rounding) -> tuple[Floats, Mask | bool]:
    """Return rounded enclosures, and where their ends do not say what the element rounds to."""
    low = round_array(np.asarray(x.lo), rounding)
    if x.exact:
        return low, False
    known = x.known()
    if rounding.mode is Mode.STOCHASTIC:  # the draw depends on every digit of the element
        return low, ~known
    high = round_array(np.asarray(x.hi), rounding)
    alike = low.view(np.uint64) == high.view(np.uint64)
    if rounding.overflow == "nan":  # beyond either end, not between
        alike &= ~np.isnan(low) | (np.signbit(x.lo) == np.signbit(x.hi))
    undecided = ~(alike | known)
    return low, undecided if x.unknown is None else undecided | x.unknown


def _rounded_by_binary64(x: Tensor, rounding: Rounding) -> NDArray[Any] | None:
    """Return what the processor's own correctly rounded operations give, where they apply."""
    if rounding != PLAIN_F64 or not isinstance(x, Mapped) or x.fn not in _BINARY64:
        return None
    if not all(isinstance(arg, Held) for arg in x.xs):
        return None
    return np.asarray(_BINARY64[x.fn](*(np.asarray(arg.array, np.float64) for arg in x.xs)))  # type: ignore[attr-defined]


_BINARY64: Final[Mapping[str, Any]] = {
    "add": np.add,
    "div": np.divide,
    "mul": np.multiply,
    "sqrt": np.sqrt,
    "sub": np.subtract,
}
