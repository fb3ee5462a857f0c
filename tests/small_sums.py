"""Operands whose sums show how small numbers are aligned and cut."""

from __future__ import annotations

import numpy as np
from matmuls import operands

from lastbit.formats import format_of

SMALL_SUMS = (
    # Products below 2^-126: a zero accumulator counts with an exponent of its own, and sums are cut
    # to subnormal numbers of binary32.
    ("bf16", "tiny", "tiny"),
    # A subnormal operand counts with the exponent of the least normal number, which cuts others.
    ("f16", "subnormal", "apart"),
    ("e4m3fn", "subnormal", "far apart"),
    ("e5m2", "subnormal", "far apart"),
)


def drawn(
    short: str, kinds: tuple[str, str], size: tuple[int, int, int]
) -> tuple[np.ndarray, np.ndarray]:
    """Return the codes of operands, [M, K] and [K, N]."""
    rng = np.random.default_rng([7, *size])
    m, k, n = size
    a, b = (
        _tiny(rng, shape) if kind == "tiny" else operands(rng, format_of(short), shape, kind)
        for kind, shape in zip(kinds, ((m, k), (k, n)), strict=True)
    )
    return a, b


def _tiny(rng: np.random.Generator, shape: tuple[int, int]) -> np.ndarray:
    """Return codes of bf16 between 2^-74 and 2^-63, of both signs."""
    fields = rng.integers(127 - 74, 127 - 63, shape)
    return (rng.integers(0, 2, shape) << 15 | fields << 7 | rng.integers(0, 128, shape)).astype(
        np.uint16
    )
