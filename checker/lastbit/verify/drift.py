"""Drift: how far apart two graphs are on inputs drawn from declared distributions.

Both graphs are run bit for bit in the array domain. Distances are counted twice: in ulp of the
result, and in ulp at scale, where the ulp is taken at the scale of the value before
(`lastbit.interpret.magnitude`): the sum of absolute terms of a reduction, the magnitude that the
value of a chain would have if nothing cancelled.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from lastbit.choices import holds_indices
from lastbit.formats import Format
from lastbit.graph import Graph, Input, Node, native_rounding, topological
from lastbit.interpret.array import ArrayDomain, ArrayLimitError, values_of
from lastbit.interpret.evaluate import evaluate
from lastbit.interpret.intervals import Floats, Interval, Mask, middle
from lastbit.interpret.magnitude import scale_of
from lastbit.interpret.policy import Policy
from lastbit.interpret.tensors import Tensor, pieces
from lastbit.plan_model import DataFile, Distribution
from lastbit.records import Bound, Drift
from lastbit.ulp_array import ulp_distance_array
from lastbit.verify.bounds import Range, bound_of
from lastbit.verify.draw import STANDARD, declared_range, described, draw

SHARP = 1 / 64  # ulp at scale: an enclosure of the exact result that is wider measures no error
SAME_SCALE = 1.05  # scales of equal terms agree so far; rounded values take part in them


def measure(
    before: Graph,
    after: Graph,
    specs: Mapping[str, Distribution | DataFile],
    seed: int,
    total_outputs: int,
) -> Drift | None:
    """Measure how far apart two graphs are.

    Args:
        before: a closed graph, reduced axes at their true sizes.
        after: a graph over the same inputs with the same results.
        specs: how inputs are drawn, by name; others are normal(0, 1).
        seed: of the draw; each input is drawn from (seed, name), whatever the others are.
        total_outputs: how many elements the results have in the whole program.

    Returns:
        the drift of the result of which most elements differ, the first of several; None if no
        result holds values of one format on both sides.

    Raises:
        DrawError: an input cannot be drawn.
        LastbitError: a graph cannot be run, or is too large to be.
    """
    nodes = (*before.results, *after.results)
    inputs = {node.name: node for node in topological(nodes) if isinstance(node, Input)}
    values = {name: draw(node, specs.get(name, STANDARD), seed) for name, node in inputs.items()}
    domain = ArrayDomain(values, seed)
    known: dict[bytes, Tensor] = {}
    evaluate(nodes, domain, Policy.BITS, known)
    pairs = [_Pair(name, x, y, fmt, known) for name, x, y, fmt in _comparable(before, after)]
    if not pairs:
        return None
    pair = max(pairs, key=lambda p: p.share)
    drawn = described({name: specs.get(name, STANDARD) for name in inputs})
    notes = [drawn, *sorted(domain.notes)]
    return pair.drift(values, specs, "; ".join(notes), seed, total_outputs)


def _comparable(before: Graph, after: Graph) -> Iterator[tuple[str, Node, Node, Format]]:
    """Yield the results that hold values of one format and shape on both sides."""
    for i, name in enumerate(before.outputs):
        x = before.values[name]
        y = after.values[name] if name in after.outputs else after.results[i]
        formats = [native_rounding(node) for node in (x, y)]
        if formats[0] is None or formats[1] is None or x.shape != y.shape:
            continue
        if formats[0].format == formats[1].format:
            yield name, x, y, formats[0].format


@dataclass(slots=True)
class _Distances:
    """Distances of the elements that differ and can be counted.

    Attributes:
        places: where they are in the flattened array.
        ulps: how far, in ulp of the result.
        counted: whether every element that differs is among them: an infinity or NaN on one side
            only is at no distance.
    """

    places: Any
    ulps: Any
    counted: bool


class _Pair:
    """One result on both sides.

    Attributes:
        share: the share of elements whose bits differ.
    """

    def __init__(
        self, name: str, before: Node, after: Node, fmt: Format, known: Mapping[bytes, Tensor]
    ) -> None:
        self.name, self.nodes, self.format, self.known = name, (before, after), fmt, known
        self.before, self.after = (values_of(known[node.key]) for node in self.nodes)
        self.differs: Mask = _words(self.before) != _words(self.after)
        count = self.differs.size
        self.share = int(self.differs.sum()) / count if count else 0.0

    def drift(
        self,
        values: Mapping[str, Floats],
        specs: Mapping[str, Distribution | DataFile],
        drawn: str,
        seed: int,
        total: int,
    ) -> Drift:
        """Return the record."""
        if all(map(holds_indices, self.nodes)):
            return self._choices(drawn, seed, total)
        count = self.differs.size
        scale = scale_of(self.nodes[0], self.known)
        unit = ulp_at(scale, self.format)
        found = self._distances()
        errors, same = self._errors(values, unit)
        return Drift(
            format=self.format.short,
            share=self.share,
            max_ulp=float(found.ulps.max(initial=0)) if found.counted else None,
            max_ulp_at_scale=self._at_scale(unit) if found.counted else None,
            p99_ulp=_percentile(found.ulps, count),
            mean_ulp=float(found.ulps.sum(dtype=np.float64)) / max(count, 1),
            sampled=(count, max(count, total)),
            inputs=drawn,
            seed=seed,
            codes_changed=self.share if self.format.is_grid else None,
            worst_index=self._worst(found),
            before_error_ulp=errors[0],
            after_error_ulp=errors[1],
            bound=self._bound(scale, same, specs),
            output=self.name,
        )

    def _choices(self, drawn: str, seed: int, total: int) -> Drift:
        """Return the record of indices: how many change; how far apart they are means nothing."""
        count = self.differs.size
        worst = np.argwhere(self.differs)
        return Drift(
            format=self.format.short,
            share=self.share,
            max_ulp=None,
            max_ulp_at_scale=None,
            p99_ulp=None,
            mean_ulp=None,
            sampled=(count, max(count, total)),
            inputs=drawn,
            seed=seed,
            codes_changed=self.share,
            worst_index=tuple(map(int, worst[0])) if len(worst) else None,
            bound=Bound(None, None, "indices have no distance"),
            output=self.name,
        )

    def _distances(self) -> _Distances:
        places = np.flatnonzero(self.differs)
        a, b = self.before.ravel()[places], self.after.ravel()[places]
        distances = ulp_distance_array(a, b, self.format)
        finite = ~(distances.of_kind("inf") | distances.of_kind("nan"))
        return _Distances(places[finite], distances.ulps[finite], bool(finite.all()))

    def _worst(self, found: _Distances) -> tuple[int, ...] | None:
        if not self.differs.any():
            return None
        worst = np.flatnonzero(self.differs)[0]
        if found.counted:
            worst = found.places[np.argmax(found.ulps)]
        else:  # an infinity or NaN on one side only
            apart = np.isfinite(self.before) != np.isfinite(self.after)
            worst = np.flatnonzero(apart)[0] if apart.any() else worst
        return tuple(int(i) for i in np.unravel_index(worst, self.differs.shape))

    def _at_scale(self, unit: Floats) -> float:
        with np.errstate(all="ignore"):
            distance = np.abs(self.before - self.after) / unit
        return float(np.max(distance, initial=0.0, where=np.isfinite(distance)))

    def _errors(
        self, values: Mapping[str, Floats], unit: Floats
    ) -> tuple[tuple[float | None, float | None], bool]:
        """Return the mean error of each side, and whether both are the same real function.

        The exact result is that of the graph before, with nothing rounded but saturation kept; it
        is known as an enclosure. Of a large result one part is measured.
        """
        try:
            exact = evaluate(self.nodes, ArrayDomain(values), Policy.REAL)
            with np.errstate(all="ignore"):
                index, part, other = _common_part(*exact)
                known = np.isfinite(part.lo) & ~_unknown(part)
                apart = (other.lo > part.hi) | (other.hi < part.lo)
                same = not (apart & known & ~_unknown(other)).any()
                unit = unit[index]
                sharp = known & (part.hi - part.lo <= SHARP * unit)
                sides = [side[index] for side in (self.before, self.after)]
                errors = [
                    _mean(np.abs(side - middle(part)) / unit, sharp & np.isfinite(side))
                    for side in sides
                ]
        except ArrayLimitError:
            return (None, None), False
        return (errors[0], errors[1]), same

    def _bound(
        self, scale: Floats, same: bool, specs: Mapping[str, Distribution | DataFile]
    ) -> Bound:
        if not same:
            return Bound(None, None, "the two sides are not known to be one real function")
        ranges: dict[str, Range] = {}
        for name, spec in specs.items():
            found = declared_range(spec)
            if found is not None:
                ranges[name] = found
        bound = bound_of(*self.nodes, self.format, ranges)
        if bound.times_sum_abs is None:
            return bound
        other = scale_of(self.nodes[1], self.known)
        if (other > scale * SAME_SCALE).any():
            return Bound(None, None, "the two sides add different terms")
        return bound


def ulp_at(x: Floats, fmt: Format) -> Floats:
    """Return the ulp of a format at every element, as `lastbit.ulps.ulp` gives it."""
    if fmt.kind == "integer":
        return np.ones(x.shape)
    exponent = np.frexp(np.where(np.isfinite(x), x, 2.0**fmt.emax))[1] - 1
    least = np.where(x == 0, fmt.emin, exponent)
    exponent = np.clip(least, fmt.emin, fmt.emax) - fmt.precision + 1
    return np.asarray(np.ldexp(1.0, exponent))


def _common_part(a: Tensor, b: Tensor) -> tuple[Any, Interval, Interval]:
    """Return the index of a part of two tensors of one shape, and its enclosures in both."""
    (at, part), (other_at, other) = (_first_piece(x) for x in (a, b))
    if at is ... and other_at is not ...:
        return other_at, part.each(lambda array: array[other_at]), other
    if other_at is ... and at is not ...:
        return at, part, other.each(lambda array: array[at])
    return at, part, other


def _first_piece(x: Tensor) -> tuple[Any, Interval]:
    index, part = next(pieces(x))
    if index is ...:
        return index, part.each(lambda array: np.broadcast_to(array, x.shape))
    return index, part


def _unknown(x: Interval) -> Any:
    return np.False_ if x.unknown is None else x.unknown


def _words(x: Floats) -> Any:
    """Return the bits of the elements; every NaN has the same."""
    nan = np.isnan(x)
    return np.where(nan, np.nan, x).view(np.uint64) if nan.any() else x.view(np.uint64)


def _percentile(ulps: Any, count: int) -> float:
    """Return the 99th percentile of `count` distances, of which all others are 0."""
    rank = -(-99 * count // 100) - 1 - (count - ulps.size)
    return float(np.partition(ulps, rank)[rank]) if rank >= 0 and ulps.size else 0.0


def _mean(x: Floats, where: Mask) -> float | None:
    return float(x[where].mean()) if where.any() else None
