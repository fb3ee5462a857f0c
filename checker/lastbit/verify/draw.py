"""Inputs drawn from declared distributions, the same on every machine, or read from files."""

from __future__ import annotations

import zlib
from collections.abc import Mapping
from fractions import Fraction

import numpy as np

from lastbit.graph import Input
from lastbit.interpret.intervals import Floats
from lastbit.plan_model import DataFile, Distribution
from lastbit.round_array import round_array
from lastbit.rounding import Rounding
from lastbit.verify.bounds import Range
from lastbit.verify.data_file import DrawError, values_in

__all__ = ["STANDARD", "DrawError", "declared_range", "described", "draw"]

STANDARD = Distribution("normal", (Fraction(0), Fraction(1)))


def draw(node: Input, spec: Distribution | DataFile, seed: int) -> Floats:
    """Draw the values of an input, independently; equal arguments give equal values.

    Raises:
        DrawError: the values come from a file that does not hold them.
    """
    if isinstance(spec, DataFile):
        return values_in(spec, node)
    words = [seed & (2**64 - 1), zlib.crc32(node.name.encode())]
    rng = np.random.Generator(np.random.PCG64(words))
    first, *more = (float(value) for value in spec.parameters)
    match spec.kind:
        case "normal":
            x = first + more[0] * rng.standard_normal(node.shape)
        case "uniform":
            x = first + (more[0] - first) * rng.random(node.shape)
        case "integers":
            whole = [int(value) for value in spec.parameters]
            x = rng.integers(whole[0], whole[1] + 1, node.shape).astype(np.float64)
        case "constant":
            x = np.full(node.shape, first)
        case _:
            raise DrawError(f"`{node.name}` has the unknown distribution {spec.kind!r}")
    if spec.range is not None:
        x = np.clip(x, float(spec.range[0]), float(spec.range[1]))
    return round_array(np.asarray(x, np.float64), Rounding.of(node.format, overflow="saturate"))


def described(specs: Mapping[str, Distribution | DataFile]) -> str:
    """Return the distributions as text: one for all, or one for each input."""
    texts = {name: str(spec) for name, spec in sorted(specs.items())}
    if len(set(texts.values())) <= 1:
        return next(iter(texts.values()), "none")
    return ", ".join(f"{name}: {text}" for name, text in texts.items())


def declared_range(spec: Distribution | DataFile) -> Range | None:
    """Return the range in which an input lies, if one is declared."""
    if isinstance(spec, DataFile):
        return None
    if spec.range is not None:
        return spec.range
    if spec.kind in ("uniform", "integers"):
        return spec.parameters[0], spec.parameters[1]
    return (spec.parameters[0], spec.parameters[0]) if spec.kind == "constant" else None
