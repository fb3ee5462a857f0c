"""Sizes that a program reads as numbers, as a mean does: which they are, and where to judge them.

Small sizes stand in for true ones as long as a size only counts elements. As a number it has a
value: division by 64 is exact, and by 3 it is not; 0.125 is 1/sqrt(64) and no other root.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction

from lastbit.change import Change
from lastbit.graph import Const, topological
from lastbit.verify.classify import CHANGE_OF, Case, Verdict, within
from lastbit.verify.region import Region
from lastbit.verify.sizing import Axis, Instance, odd_sizes, unique

LARGEST_PART = 63  # an odd part of a fixed size that stands in for it
ROUNDED = Fraction(1, 128)  # a literal so near to a reciprocal, relatively, may be a rounding of it


@dataclass(frozen=True, slots=True)
class Judging:
    """What is needed to classify a region at other sizes.

    Attributes:
        region_at: the region at some sizes, where it applies there.
        cases_at: the cases at some sizes, without those that are too large.
        classify: the verdict on cases, with witnesses at the given sizes.
        axes: the size symbols of the plan.
        seed: selects the draws.
    """

    region_at: Callable[[Instance], Region | None]
    cases_at: Callable[[Sequence[Instance]], Sequence[Case]]
    classify: Callable[[Sequence[Case], Iterable[Instance]], Verdict]
    axes: Mapping[str, Axis]
    seed: int

    def verdict(
        self, cases: Sequence[Case], small: Sequence[Instance], witnesses: Sequence[Instance]
    ) -> Verdict:
        """Return the verdict on cases at small sizes, or at true ones where these count.

        A fixed size is the number of the plan, and no smaller one: what is said of small sizes
        holds only where the true ones do not agree under a stricter policy.
        """
        true = {name: axis.true for name, axis in self.axes.items()}
        names = counted(self.region_at, small, true)
        odd = odd_instances(witnesses[0], {name: self.axes[name] for name in names})
        found = self.classify(cases, (*witnesses, *odd))
        if found.change == Change.BITWISE:
            return found
        fixed = [name for name in names if not self.axes[name].ends]
        first = self.region_at(small[0])
        if found.change == Change.MATH and first is not None:
            others = (name for name, axis in self.axes.items() if not axis.ends)
            fixed += [name for name in others if mentions(first, true[name])]
        large = self._at(small, fixed, true) if fixed else []
        stricter = [policy for policy, change in CHANGE_OF.items() if change < found.change]
        doubtful = found.change >= Change.MATH
        if not large or not (doubtful or any(within(large, p, self.seed) for p in stricter)):
            return found
        other = self.classify(large, unique(keeping(one, fixed, true) for one in witnesses))
        # Small sizes show no other function where the true ones were tried in vain.
        in_vain = doubtful and other.draws > 0
        return other if other.change != Change.UNKNOWN or in_vain else found

    def _at(
        self, small: Sequence[Instance], fixed: Sequence[str], true: Mapping[str, int]
    ) -> Sequence[Case]:
        """Return the cases with some sizes at their true values; none where one is too large."""
        kept = unique(keeping(one, fixed, true) for one in small)
        applying = [one for one in kept if self.region_at(one) is not None]
        cases = self.cases_at(applying)
        return cases if len(cases) == len(applying) else []


def counted(
    region_at: Callable[[Instance], Region | None],
    small: Sequence[Instance],
    true: Mapping[str, int],
) -> list[str]:
    """Return the symbols on whose sizes the constants of a region depend.

    Args:
        region_at: the region at some sizes, where it applies there.
        small: small sizes.
        true: the sizes of the plan.
    """
    known = region_at(small[0])
    others = [region_at(instance) for instance in small[1:2]]
    if known is None or all(one is None or _numbers(one) == _numbers(known) for one in others):
        return []
    found = []
    for name in true:
        other = region_at(keeping(small[0], (name,), true))
        if other is not None and _numbers(other) != _numbers(known):
            found.append(name)
    return found


def mentions(region: Region, size: int) -> bool:
    """Return whether a constant of a region may be a size, or its reciprocal."""
    return size > 1 and any(
        value == size or abs(value * size - 1) < ROUNDED for value in _numbers(region)
    )


def keeping(instance: Instance, names: Collection[str], true: Mapping[str, int]) -> Instance:
    """Return sizes of which those with some names are the true ones."""
    kept = {name: true[name] for name in names}
    factors = {**instance.factors, **dict.fromkeys(kept, Fraction(1))}
    return replace(instance, sizes={**instance.sizes, **kept}, factors=factors)


def odd_instances(smallest: Instance, axes: Mapping[str, Axis]) -> Iterator[Instance]:
    """Yield sizes for witnesses in which one symbol has an odd size, not 1.

    For a fixed size that is its odd part: the rest scales by a power of two.
    """
    for name, axis in axes.items():
        part = axis.true // (axis.true & -axis.true)
        sizes = odd_sizes(axis) if axis.ends else [part] if 1 < part <= LARGEST_PART else []
        for size in sorted(sizes):
            yield keeping(smallest, (name,), {name: size})


def _numbers(region: Region) -> frozenset[Fraction]:
    return frozenset(
        node.value
        for node in topological([*region.before.results, *region.after.results])
        if isinstance(node, Const) and isinstance(node.value, Fraction)
    )
