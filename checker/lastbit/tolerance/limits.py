"""The smallest bound that admits every schedule and contract that a budget allows.

A legal result is off the exact one by at most d / (1 - d) of the sum of absolute terms before it is
rounded to its format; d sums up the roundings on the longest way (`lastbit.verify.bounds`; Higham,
Accuracy and Stability of Numerical Algorithms, 2nd ed., lemma 3.1 and sections 3.1 and 4.2). So two
of them differ before that last rounding by at most D, the sum of both. After it:

- A rounding to nearest moves a value by at most u times its result (ibid., theorem 2.3), so that
  |a - e| <= D S + u (|a| + |e|), S being the sum of absolute terms.
- Between numbers that are t ulp apart lie at most floor(t) + 1 midpoints, so they round to values
  that are at most floor(t) + 1 ulp apart. Where no terms cancel, t is at most D / (1 - D) 2^p.

An accumulator of the result's own format is rounded no more.

This holds where nothing overflows and no step lies below the smallest normal; a result that does is
off by half of the smallest subnormal at most.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import product

import numpy as np

from lastbit.formats import Format, format_of
from lastbit.machines import machine_of
from lastbit.records import Bound
from lastbit.report.words import plural
from lastbit.tolerance.contracts import ANY_ORDER, SUMS, Contract, graph_of, matrix_unit, pairs
from lastbit.tolerance.operations import Floats, Operation
from lastbit.tolerance.records import Limit, Subject
from lastbit.ulp_array import ulp_distance_array
from lastbit.verify.bounds import bound_of


@dataclass(frozen=True)
class Admission:
    """The bound, and what it admits.

    Attributes:
        limit: the bound in figures.
        sum_abs: for each element the sum of its absolute terms.
        format: of the result.
        rounds_last: whether the sum is rounded to it at the end, and not already its accumulator.
    """

    limit: Limit
    sum_abs: Floats
    format: Format
    rounds_last: bool

    def share(self, actual: Floats, expected: Floats) -> float | None:
        """Return the greatest distance as a share of what is allowed there; above 1 is too much.

        Returns:
            infinity beside NaN and infinities; null where there is no bound.
        """
        if not self.limit.rule:
            return None
        if not (np.isfinite(actual).all() and np.isfinite(expected).all()):
            return math.inf
        if self.limit.max_ulp is not None:
            farthest = int(ulp_distance_array(actual, expected, self.format).ulps.max())
            if not self.limit.max_ulp:
                return math.inf if farthest else 0.0
            return farthest / self.limit.max_ulp
        assert self.limit.times_sum_abs is not None
        apart = np.abs(actual - expected)
        allowed = self.limit.times_sum_abs * self.sum_abs
        if self.rounds_last:
            u = 2.0**-self.format.precision
            allowed += u * (np.abs(actual) + np.abs(expected)) + float(self.format.min_subnormal)
        with np.errstate(divide="ignore"):  # where every term is zero, nothing is allowed
            return float(np.divide(apart, allowed, out=np.zeros_like(apart), where=apart > 0).max())

    def admits(self, actual: Floats, expected: Floats) -> bool | None:
        """Return whether the bound lets a result pass; null where there is no bound."""
        share = self.share(actual, expected)
        return None if share is None else share <= 1

    def of_rows(self, operation: Operation) -> Admission:
        """Return the same bound for an operation on fewer rows."""
        return replace(self, sum_abs=operation.sum_abs())


def admission(operation: Operation) -> Admission:
    """Return the smallest bound for an operation."""
    subject = operation.subject
    sum_abs = operation.sum_abs()
    rounds_last = subject.op not in ("sum", "matmul") or subject.acc != subject.format
    limit = _limit(subject, _widest(subject), float(sum_abs.max()), rounds_last)
    return Admission(limit, sum_abs, format_of(subject.format), rounds_last)


@dataclass(frozen=True, slots=True)
class _Widest:
    """The two legal results that may be farthest apart.

    Attributes:
        bound: how far, before the last rounding.
        pair: what each rounds.
        schedule: how each adds up.
    """

    bound: Bound
    pair: tuple[Contract, ...] = ()
    schedule: str = ""


def _widest(subject: Subject) -> _Widest:
    """Return the widest bound of all pairs of contracts and schedules; exact for none."""
    widest = _Widest(Bound(0.0, 0.0, "all terms have one sign"))
    unit = matrix_unit(subject)
    for pair, schedule in product(pairs(subject), [ANY_ORDER, *([unit] if unit else [])]):
        before, after = (graph_of(subject, side, schedule, "real").values["y"] for side in pair)
        found = _Widest(bound_of(before, after, format_of(subject.format), {}), pair, schedule)
        if found.bound.times_sum_abs is None:
            return found
        if found.bound.times_sum_abs > (widest.bound.times_sum_abs or 0.0):
            widest = found
    return widest


def _limit(subject: Subject, widest: _Widest, sum_abs: float, rounds_last: bool) -> Limit:
    fmt, worst = format_of(subject.format), widest.bound
    apart = worst.times_sum_abs
    steps = tuple(_derivation(subject, widest))
    if apart is None or apart >= 1:
        why = worst.why if apart is None else "so many roundings may lose every digit"
        return Limit("", None, apart, None, None, sum_abs, (*steps, f"so there is no bound: {why}"))
    if apart == 0:
        return Limit("the same bits", 0, 0.0, 0.0, 0.0, sum_abs, steps)
    u = 2.0**-fmt.precision
    if worst.ulp is not None:
        before = math.nextafter(apart / (1 - apart) * 2.0**fmt.precision, math.inf)
        ulps = math.floor(before) + 1
        rtol = (apart * (1 + u) / (1 - apart) + 2 * u) / (1 - u)
        last = (
            f"no terms cancel, so that is at most {before:.3g} ulp of {fmt.short} before the last "
            f"rounding, and {ulps} after it"
        )
        rule = f"{ulps} ulp of {fmt.short}"
        return Limit(rule, ulps, apart, rtol, 0.0, sum_abs, (*steps, last))
    if not rounds_last:
        last = f"they are values of {fmt.short}, and rounded no more"
        rule = f"|a - e| <= {apart:.3g} S"
        return Limit(rule, None, apart, 0.0, apart * sum_abs, sum_abs, (*steps, last))
    last = f"the last rounding moves each by at most 2^-{fmt.precision} of itself (theorem 2.3)"
    rule = f"|a - e| <= {apart:.3g} S + 2^-{fmt.precision} (|a| + |e|)"
    rtol, atol = 2 * u / (1 - u), (apart * sum_abs + float(fmt.min_subnormal)) / (1 - u)
    return Limit(rule, None, apart, rtol, atol, sum_abs, (*steps, last))


def _derivation(subject: Subject, widest: _Widest) -> Iterator[str]:
    if not widest.pair:
        if subject.budget == "bitwise":
            yield "the budget `bitwise` allows no other result"
        else:
            yield f"`{subject.budget}` lets only the order of sums change, and nothing is added up"
        return
    if subject.op in SUMS:
        yield _way(subject, widest.schedule)
    for side in dict.fromkeys(widest.pair):
        node = graph_of(subject, side, widest.schedule, "real").values["y"]
        found = bound_of(node, node, format_of(subject.format), {}).times_sum_abs
        if found is not None:
            told = f"a result is at most d / (1 - d) = {found / 2:.3g} S off the exact one"
            yield f"with {side}, {told}; S sums up absolute terms (lemma 3.1)"
    if widest.bound.times_sum_abs is not None:
        yield f"so two legal results are at most {widest.bound.times_sum_abs:.3g} S apart"


def _way(subject: Subject, schedule: str) -> str:
    """Return what a term meets on the way through a sum."""
    terms, acc = plural(subject.shape[-1], "term"), subject.acc
    if schedule != ANY_ORDER:
        unit = machine_of(subject.machine).unit(subject.format)
        steps = plural(-(-subject.shape[-1] // unit.width), "step")
        return (
            f"{schedule} adds {terms} in {steps}, each of which cuts {unit.width + 1} terms at "
            f"2^-{unit.fraction_bits} of the largest, and its result to {unit.result_bits} bits: "
            f"more than any order of additions in {acc} loses"
        )
    return (
        f"each sum adds {terms} in {acc} in any order, so a term is rounded once for each at most, "
        f"by u = 2^-{format_of(acc).precision} (Higham, sec. 4.2)"
    )
