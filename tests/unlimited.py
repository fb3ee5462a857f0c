"""The exact domain for two questions: what holds without limits, and what is an ordinary run."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from typing import Any

from lastbit.formats import Format
from lastbit.interpret.exact import ExactDomain, Numbers, elementwise
from lastbit.rounding import Rounding, round_exact


class Unlimited(ExactDomain):
    """The exact domain where exponents have no limits; ordinary runs are a part of its runs.

    A rounding that saturates still clamps.

    Attributes:
        finite: whether every value so far was finite.
    """

    def __init__(self, inputs: Mapping[str, Any]) -> None:
        super().__init__(inputs)
        self.finite = True

    def map(self, fn: str, xs: tuple[Numbers, ...]) -> Numbers:
        """Apply a function; note infinities and NaN."""
        out = super().map(fn, xs)
        self.finite &= not any(isinstance(v, float) and v - v != 0 for v in out.array.flat)
        return out

    def rounded(self, array: Any, rounding: Rounding) -> Any:
        """Round without limits."""
        out = elementwise(lambda v: round_exact(v, without_limits(rounding)), array)
        if rounding.overflow == "saturate":
            out = self.clamp(Numbers(out), rounding).array
        return out


class Strict(ExactDomain):
    """The exact domain, where a nonzero number that becomes zero is not ordinary either."""

    def rounded(self, array: Any, rounding: Rounding) -> Any:
        """Round, and compare the zeros."""
        out = super().rounded(array, rounding)
        if any(v == 0 and u != 0 for u, v in zip(array.flat, out.flat, strict=True)):
            self.ordinary = False
        return out


@functools.cache
def without_limits(rounding: Rounding) -> Rounding:
    """Return a rounding to as many digits, with exponents from -8190 to 8190."""
    fmt = rounding.format
    wide = Format(f"{fmt} without limits", fmt.short, fmt.precision + 14, fmt.precision, -8190)
    return Rounding.of(wide, mode=rounding.mode)
