"""At which sizes a transform is judged.

Graphs are judged at small sizes, several sets of them, with a different size for each symbol,
at least three elements in a block and four blocks along a reduced axis; lengths in rules and
schedules shrink with the axis that they divide. Since schedules that differ can agree on few
elements (`seq` and `pairwise(8)` at 8), each reduced symbol is also judged at its true size,
with the other symbols small. Division by a power of two is exact, so a symbol with a range is also
judged at small odd sizes in it. Witnesses are sought from the smallest sizes upwards.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
from fractions import Fraction

LARGEST_COUNT = 16  # of pieces that a small size is made to divide into
LARGEST_TRUE = 1 << 17  # elements of a reduced axis that are judged at the true size

_REDUCED = {0: (12, 24, 36, 48, 60), 1: (8, 16, 20, 28, 32)}
_PARALLEL = {0: (3, 5, 7, 2, 11), 1: (2, 3, 4, 5, 6)}
_ODD = (7, 3, 5)
_WITNESS = (1, 2, 3, 4, 6, 8, 12, 16, 24)


@dataclass(slots=True)
class Axis:
    """What is known of a size symbol.

    Attributes:
        true: its size in the plan.
        reduced: whether a sum or maximum runs along it.
        lengths: the block lengths that rules and schedules cut it into.
        counts: the numbers of pieces it is cut into.
        own: whether the transform itself cuts it.
        ends: the smallest and the largest size of its range, where it has one.
        kept: the lengths and counts by which earlier transforms cut it that stay in the program;
            they must fit whatever the region.
    """

    true: int
    reduced: bool = False
    lengths: set[int] = field(default_factory=set)
    counts: set[int] = field(default_factory=set)
    own: bool = False
    ends: tuple[int, ...] = ()
    kept: tuple[set[int], set[int]] = field(default_factory=lambda: (set(), set()))

    def copy(self) -> Axis:
        """Return an axis that can be cut without cutting this one."""
        kept = set(self.kept[0]), set(self.kept[1])
        return replace(self, lengths=set(self.lengths), counts=set(self.counts), kept=kept)

    def reduced_in(self, lengths: Collection[int]) -> bool:
        """Return whether sums of these true lengths run along the axis, or along its blocks."""
        return self.true in lengths or (self.reduced and not self.lengths.isdisjoint(lengths))

    def within(self, lengths: Collection[int]) -> Axis:
        """Return the axis as a region sees it that reduces axes of these true lengths."""
        reduced = self.reduced_in(lengths)
        cuts = self.lengths if reduced or self.own else self.kept[0]
        counts = self.counts if reduced else self.kept[1]
        return replace(self, reduced=reduced, lengths=set(cuts), counts=set(counts))

    @property
    def cut(self) -> bool:
        """Return whether anything runs along the axis or divides it."""
        return self.reduced or bool(self.lengths) or bool(self.counts)

    def sized(self, base: int, block: int, blocks: int) -> tuple[int, Fraction]:
        """Return a small size, and the factor by which lengths along the axis shrink.

        Args:
            base: the size where nothing cuts the axis.
            block: elements of the smallest block.
            blocks: number of the largest blocks.
        """
        size, factor = base, Fraction(1)
        if self.lengths:
            least = min(self.lengths)
            block = min(block, least)
            factor = Fraction(least, block)
            largest = math.ceil(max(self.lengths) / factor)
            size = blocks * largest + (1 if self.true % least else 0)
        for count in sorted(self.counts):
            multiple = math.lcm(size, count)
            if count <= LARGEST_COUNT and multiple <= 96:
                size = multiple
        if self.true <= size:
            return self.true, Fraction(1)
        return size, factor


@dataclass(frozen=True, slots=True)
class Instance:
    """One set of sizes.

    Attributes:
        sizes: a number for each symbol.
        factors: by symbol, what lengths along it are divided by.
        purpose: `small`, `true` or `witness`.
    """

    sizes: Mapping[str, int]
    factors: Mapping[str, Fraction]
    purpose: str


def instances(axes: Mapping[str, Axis], avoid: Collection[int] = ()) -> list[Instance]:
    """Return the sizes at which to judge: small ones, then true ones.

    Args:
        axes: the axes.
        avoid: sizes that no symbol gets, since the program writes them as numbers.
    """
    out = [_small(axes, variant, avoid) for variant in (0, 1)]
    small = out[1]
    out += [_odd(axes, small, turn) for turn in (0, 1) if any(odd_sizes(a) for a in axes.values())]
    ends = [(name, size) for name, axis in axes.items() for size in (axis.true, *axis.ends)]
    for name, size in ends:
        if not axes[name].reduced or size == small.sizes[name]:
            continue
        sizes, factors = {}, {}
        for other, info in axes.items():
            if other == name:
                sizes[other], factors[other] = min(size, LARGEST_TRUE), Fraction(1)
            elif info.cut:
                sizes[other], factors[other] = info.sized(2, 1, 2)
            else:
                sizes[other], factors[other] = 1, Fraction(1)
        out.append(Instance(sizes, factors, "true"))
    return unique(out)


def witness_instances(axes: Mapping[str, Axis]) -> list[Instance]:
    """Return sizes for witnesses, from the smallest upwards."""
    out = []
    for size in _WITNESS:
        sizes, factors = {}, {}
        for name, axis in axes.items():
            if axis.reduced or axis.own:
                sizes[name], factors[name] = axis.sized(size, 1 if size < 8 else 2, size)
            elif axis.cut:
                sizes[name], factors[name] = axis.sized(1, 1, 1)
            else:
                sizes[name], factors[name] = min(axis.true, 1), Fraction(1)
        out.append(Instance(sizes, factors, "witness"))
    smallest = out[0]
    for name, axis in axes.items():
        if axis.reduced and axis.ends:  # what agrees at the typical size may differ above it
            size = min(max(axis.ends), 2 * axis.true + 1)
            sizes = {**smallest.sizes, name: size}
            out.append(Instance(sizes, {**smallest.factors, name: Fraction(1)}, "witness"))
    return unique(out)


def _small(axes: Mapping[str, Axis], variant: int, avoid: Collection[int]) -> Instance:
    """Return small sizes, a different one for each symbol."""
    block, blocks = ((3, 4), (2, 5))[variant]
    taken: set[int] = set(avoid)
    sizes, factors = {}, {}
    for name, axis in axes.items():
        bases = _REDUCED[variant] if axis.cut else _PARALLEL[variant]
        for i, base in enumerate(bases):
            sizes[name], factors[name] = axis.sized(base, block, blocks + i)
            if sizes[name] not in taken:
                break
        taken.add(sizes[name])
    return Instance(sizes, factors, "small")


def odd_sizes(axis: Axis) -> list[int]:
    """Return the small odd sizes in the range of an axis that nothing cuts."""
    if not axis.ends or axis.lengths or axis.counts:
        return []
    return [size for size in _ODD if min(axis.ends) <= size <= max(axis.ends)]


def _odd(axes: Mapping[str, Axis], small: Instance, turn: int) -> Instance:
    """Return the small sizes with odd ones for the symbols that have a range."""
    sizes, factors = dict(small.sizes), dict(small.factors)
    for number, (name, axis) in enumerate(axes.items()):
        if odds := odd_sizes(axis):
            sizes[name] = odds[(number + turn) % len(odds)]
            factors[name] = Fraction(1)
    return Instance(sizes, factors, "small")


def unique(found: Iterable[Instance]) -> list[Instance]:
    """Return instances without those whose sizes came before."""
    out: list[Instance] = []
    for instance in found:
        if not any(dict(instance.sizes) == dict(other.sizes) for other in out):
            out.append(instance)
    return out
