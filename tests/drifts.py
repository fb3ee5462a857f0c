"""The drift between two programs."""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction

from sites import graph_of

from lastbit.plan_model import DataFile, Distribution
from lastbit.records import Drift
from lastbit.verify.drift import measure

SUM = "x: f32[M, K]\nw: f32[K, N]\ny: {} = matmul(x, w) acc f32 {}"
U32, U16 = 2.0**-24, 2.0**-8  # unit roundoffs of f32 and bf16


def spec(kind: str, *numbers: str, within: tuple[str, str] | None = None) -> Distribution:
    """Return the distribution of an input, within a range."""
    parameters = tuple(Fraction(number) for number in numbers)
    return Distribution(kind, parameters, within and (Fraction(within[0]), Fraction(within[1])))


def drift_of(
    before: str,
    after: str,
    specs: Mapping[str, Distribution | DataFile] | None = None,
    **sizes: int,
) -> Drift:
    """Return the drift between two programs on a million elements at most."""
    found = measure(graph_of(before, **sizes), graph_of(after, **sizes), specs or {}, 0, 10**6)
    assert found is not None
    return found
