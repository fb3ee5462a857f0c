"""How far apart the results for a row of the batch are at two batch sizes, and which is nearer.

The exact value of sums, means, products and convolutions is computed from the operands in integers
(`lastbit.audit.exact_dots`); of other operators it is not known here, and null says so.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

from lastbit.audit.calling import Call
from lastbit.audit.case import Case
from lastbit.audit.contraction import Contraction, contraction_of
from lastbit.audit.convolution import NAME as CONVOLUTION
from lastbit.audit.convolution import patches_of
from lastbit.audit.exact_dots import exact_dots
from lastbit.audit.records import Distance, Nearer
from lastbit.audit.row_results import Pair, Places, flat_places, most_differing
from lastbit.audit.tensor_values import indexed, values_of_tensor
from lastbit.ulp_array import ulp_distance_array
from lastbit.ulps import ulp

Tensor: TypeAlias = Any  # of torch, which is imported when it is needed
Floats = NDArray[np.float64]

MOST_OUTPUTS: Final = 256  # whose exact value is computed
MOST_TERMS: Final = 1 << 22  # of all these together
NO_FORM: Final = "the exact value of this operator is not computed, only that of sums and products"


@dataclass(frozen=True, slots=True)
class Nearness:
    """Two results for one row of the batch.

    Attributes:
        sizes: the batch sizes, before and after.
        distance: how far apart the results are; its ulp at scale are those at the sum of absolute
            terms, the greatest of the values whose exact value was computed.
        nearer: which is nearer the exact value, in ulp at scale.
    """

    sizes: tuple[int, int]
    distance: Distance | None
    nearer: Nearer


def nearness(case: Case, before: int, after: int, row: int = 0) -> Nearness:
    """Compare the results for a row of the batch at two batch sizes.

    Args:
        case: the operator.
        before: the one size.
        after: the other size.
        row: the row of the batch, which both sizes have.

    Raises:
        NotSeparableError: the operator cannot be run on some rows.
    """
    sizes = before, after
    pair = most_differing(case, sizes, row)
    if pair is None:
        why = "no result holds floating-point numbers for each row"
        return Nearness(sizes, None, Nearer(None, None, None, None, 0, why))
    if not len(pair.differing):
        why = "the bits are the same at both sizes"
        return Nearness(sizes, _distance(pair, None), _unknown(pair, why))
    form, given = _form(case, row) if pair.number == 0 else (None, {})
    if form is None:
        return Nearness(sizes, _distance(pair, None), _unknown(pair, NO_FORM))
    flat = flat_places(case, [row], 0, pair.number)
    return _measured(sizes, pair, flat, form, given)


def _form(case: Case, row: int) -> tuple[Contraction | None, Mapping[str, Any]]:
    """Return what the operator adds up for one row of the batch, and its operands by name."""
    given = Call.of(case, [row]).named
    if case.name == CONVOLUTION:
        return patches_of(given) or (None, {})
    return contraction_of(case.name, given), given


def _distance(pair: Pair, at_scale: float | None) -> Distance:
    places = pair.differing
    measured = ulp_distance_array(pair.before[places], pair.after[places], pair.format)
    counted = measured.of_kind("distance") | measured.of_kind("signed-zero")
    most = int(measured.ulps[counted].max()) if counted.any() else None
    return Distance(pair.format.short, pair.before.size, len(places), most, at_scale)


def _unknown(pair: Pair, why: str) -> Nearer:
    return Nearer(None, None, None, pair.format.short, 0, why)


def _measured(
    sizes: tuple[int, int], pair: Pair, flat: Places, form: Contraction, given: Mapping[str, Any]
) -> Nearness:
    chosen = _chosen(pair, form.terms)
    try:
        exact, scales = exact_values(form, given, [int(flat[i]) for i in chosen])
    except NotFiniteError as error:
        return Nearness(sizes, _distance(pair, None), _unknown(pair, str(error)))
    sides = pair.before[chosen], pair.after[chosen]
    if not all(np.isfinite(side).all() for side in sides):
        why = "a result is infinite or NaN, and the exact value is finite"
        return Nearness(sizes, _distance(pair, None), _unknown(pair, why))
    units = [ulp(scale, pair.format) for scale in scales]
    rounded = [[Fraction(value) for value in side.tolist()] for side in sides]
    errors = [
        _mean([abs(v - e) / u for v, e, u in zip(s, exact, units, strict=True)]) for s in rounded
    ]
    apart = max(abs(x - y) / u for x, y, u in zip(*rounded, units, strict=True))
    nearer = Nearer(
        _side(errors[0], errors[1]),
        float(errors[0]),
        float(errors[1]),
        pair.format.short,
        len(chosen),
    )
    return Nearness(sizes, _distance(pair, float(apart)), nearer)


def _side(before: Fraction, after: Fraction) -> str:
    if f"{float(before):.3g}" == f"{float(after):.3g}":
        return "neither"
    return "before" if before < after else "after"


def _mean(values: Sequence[Fraction]) -> Fraction:
    return sum(values, Fraction(0)) / len(values)


def _chosen(pair: Pair, terms: int) -> Places:
    """Return some places that differ: spread evenly, and the farthest apart."""
    places = pair.differing
    count = max(1, min(MOST_OUTPUTS, MOST_TERMS // max(1, terms)))
    if len(places) <= count:
        return places
    even = places[np.linspace(0, len(places) - 1, count).round().astype(np.intp)]
    far = ulp_distance_array(pair.before[places], pair.after[places], pair.format).ulps.argmax()
    return np.unique(np.append(even, places[far]))


class NotFiniteError(ValueError):
    """Operands hold infinities or NaN, so that there is no exact value."""

    def __init__(self) -> None:
        super().__init__("the operands hold infinities or NaN")


def exact_values(
    form: Contraction, given: Mapping[str, Any], flat: Sequence[int]
) -> tuple[list[Fraction], list[Fraction]]:
    """Return the exact value of some outputs, and the sum of the absolute terms of each.

    Args:
        form: what the operator adds up.
        given: its operands by name.
        flat: places in the result, counted along its axes.

    Raises:
        NotFiniteError: an operand is infinite or NaN there.
    """
    places = [form.place(one) for one in flat]
    z, m, n = (list(part) for part in zip(*places, strict=True))
    left = _finite(indexed(form.left.read(given[form.left.name]), (z, m)))
    if form.running:
        left = np.where(np.arange(form.terms) <= np.array(n)[:, None], left, 0.0)
    right = None
    if form.right is not None:
        right = _finite(indexed(form.right.read(given[form.right.name]), (z, slice(None), n)))
    factor = form.alpha
    for name in form.scales:
        factor *= Fraction(_finite(given[name].reshape(1)).item())
    sizes = np.abs(left), None if right is None else np.abs(right)
    exact = [dot * factor for dot in exact_dots(left, right)]
    scales = [dot * abs(factor) for dot in exact_dots(*sizes)]
    addend = form.addend_of(given)
    if addend is not None:
        added = [Fraction(x) * form.beta for x in _finite(addend[z, m, n]).tolist()]
        exact = [x + y for x, y in zip(exact, added, strict=True)]
        scales = [x + abs(y) for x, y in zip(scales, added, strict=True)]
    return exact, scales


def _finite(tensor: Tensor) -> Floats:
    values = values_of_tensor(tensor)
    if not np.isfinite(values).all():
        raise NotFiniteError
    return values
