"""Run both sides of a region in the exact domain, and find where they differ."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from lastbit.formats import identical
from lastbit.interpret.evaluate import evaluate
from lastbit.interpret.exact import ExactDomain, Objects
from lastbit.interpret.policy import Policy
from lastbit.reals import Real, same
from lastbit.verify.region import Region

Inputs = Mapping[str, Objects]


@dataclass(frozen=True, slots=True)
class Run:
    """Both sides of a region on the same inputs.

    Attributes:
        before: result arrays before.
        after: result arrays afterwards.
        ordinary_before: whether the run of that side was ordinary.
        ordinary_after: whether the run of that side was ordinary.
        saturated: whether a number was beyond the range of a format that saturates, by side.
    """

    before: Sequence[Objects]
    after: Sequence[Objects]
    ordinary_before: bool
    ordinary_after: bool
    saturated: tuple[bool, bool] = (False, False)

    @property
    def ordinary(self) -> bool:
        """Return whether the runs of both sides were ordinary."""
        return self.ordinary_before and self.ordinary_after

    def difference(self, equal: Callable[[Any, Any], bool]) -> tuple[int, tuple[int, ...]] | None:
        """Return the output and the index of the first pair that is not equal."""
        for i, (x, y) in enumerate(zip(self.before, self.after, strict=True)):
            for index in np.ndindex(*x.shape):
                if not equal(x[index], y[index]):
                    return i, index
        return None

    def at(self, output: int, index: tuple[int, ...]) -> tuple[Any, Any]:
        """Return the pair of values at a place."""
        return self.before[output][index], self.after[output][index]


def run(region: Region, inputs: Inputs, policy: Policy) -> Run:
    """Evaluate both sides in the exact domain."""
    sides = []
    for graph in (region.before, region.after):
        domain = ExactDomain(inputs)
        values = evaluate(graph.results, domain, policy)
        shapes = [node.shape for node in graph.results]
        arrays = [np.broadcast_to(v.array, s) for v, s in zip(values, shapes, strict=True)]
        special = any(isinstance(v, float) for array in arrays for v in array.flat)
        sides.append((arrays, domain.ordinary and not special, domain.saturated))
    (before, plain, clipped), (after, still_plain, still_clipped) = sides
    return Run(before, after, plain, still_plain, (clipped, still_clipped))


def not_apart(a: Any, b: Any) -> bool:
    """Return whether two numbers are not known to differ."""
    if isinstance(a, Real) or isinstance(b, Real):
        return same(a, b) is not False
    return identical(a, b) or a == b
