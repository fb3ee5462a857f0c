"""Sums under BITS in the field: a keyed hash at every node of the tree.

One algebra twice: on Python integers for long sums with few outputs, on arrays for all others.
"""

from __future__ import annotations

from math import prod

import numpy as np

from lastbit.interpret.digits import ZERO, Digits, join
from lastbit.interpret.field_hashes import Hashes, is_odd
from lastbit.interpret.residues import Words, key_of
from lastbit.machines import unit_of
from lastbit.rounding import Rounding
from lastbit.schedule import AnyOrder, Fused, Schedule, fold, levels

SCALAR_LIMIT = 32  # outputs up to which a sum is folded in Python integers


def tree_sum(
    hashes: Hashes, leaves: Words, digits: Digits | None, schedule: Schedule, acc: Rounding
) -> Words:
    """Return the sum along the first axis, with a keyed hash at every node of the tree.

    Args:
        hashes: the field and its keyed hashes.
        leaves: the terms, modulo p; the first axis counts them.
        digits: how they are written, where known.
        schedule: the tree.
        acc: the rounding of the additions at its root level.
    """
    k, outputs, fmt = leaves.shape[0], prod(leaves.shape[1:]), acc.format.short
    stepped = any(isinstance(level, Fused | AnyOrder) for level in levels(schedule))
    if stepped or outputs > SCALAR_LIMIT:
        value, _ = fold(schedule, k, fmt, _ArrayTree(hashes, leaves, digits, acc))
        return np.asarray(value)
    columns = leaves.reshape(k, outputs).T.tolist()
    sums = [fold(schedule, k, fmt, _ScalarTree(hashes, c, digits, acc))[0] for c in columns]
    return np.array(sums, np.uint64).reshape(leaves.shape[1:])


class _Tree:
    """What both algebras know of the formats in a tree."""

    def __init__(self, hashes: Hashes, digits: Digits | None, acc: Rounding) -> None:
        self.hashes, self.digits, self.acc = hashes, digits, acc
        self.p = hashes.field.p
        self._formats: dict[str, tuple[Rounding, int, Digits]] = {}

    def _format(self, fmt: str) -> tuple[Rounding, int, Digits]:
        """Return the rounding to a format, its key, and the digits of its values."""
        if fmt not in self._formats:
            rounding = self.acc if fmt == self.acc.format.short else Rounding.of(fmt)
            key = self.hashes.rounding_key(rounding)
            self._formats[fmt] = rounding, key, Digits.of_format(rounding.format)
        return self._formats[fmt]

    def _added(self, a: Digits | None, b: Digits | None, fmt: str) -> Digits | None:
        """Return what is known of a sum in an integer format: it is exact, unless too large."""
        if a is None or b is None or self._format(fmt)[0].format.kind != "integer":
            return None
        return a + b


Number = tuple[int, Digits | None]


class _ScalarTree(_Tree):
    """The algebra on Python integers: one output."""

    def __init__(
        self, hashes: Hashes, leaves: list[int], digits: Digits | None, acc: Rounding
    ) -> None:
        super().__init__(hashes, digits, acc)
        self.leaves = leaves

    def zero(self, fmt: str) -> Number:
        return 0, ZERO

    def leaf(self, i: int) -> Number:
        return self.leaves[i], self.digits

    def convert(self, value: Number, fmt: str) -> Number:
        rounding, key, digits = self._format(fmt)
        x, known = value
        if known is not None and known.fits(rounding):
            return value
        return self.hashes.rounded_number(x, key, rounding), digits if x else ZERO

    def add(self, a: Number, b: Number, fmt: str) -> Number:
        if a[0] == 0:
            return self.convert(b, fmt)
        if b[0] == 0:
            return self.convert(a, fmt)
        return self.convert(((a[0] + b[0]) % self.p, self._added(a[1], b[1], fmt)), fmt)

    def fused(self, acc: Number, terms: list[Number], machine: str, fmt: str) -> Number:
        raise AssertionError("a step of a matrix unit is folded on arrays")

    def any_order(self, values: list[Number], fmt: str) -> Number:
        raise AssertionError("a set of orders is folded on arrays")


Slab = tuple[Words, Digits | None]


class _ArrayTree(_Tree):
    """The algebra on arrays: all outputs at once, one slab for each term."""

    def __init__(self, hashes: Hashes, leaves: Words, digits: Digits | None, acc: Rounding) -> None:
        super().__init__(hashes, digits, acc)
        self.slabs = leaves

    def zero(self, fmt: str) -> Slab:
        return np.zeros(self.slabs.shape[1:], np.uint64), ZERO

    def leaf(self, i: int) -> Slab:
        return self.slabs[i], self.digits

    def convert(self, value: Slab, fmt: str) -> Slab:
        rounding, key, digits = self._format(fmt)
        x, known = value
        if known is not None and known.fits(rounding):
            return value
        return self.hashes.rounded(x, key, rounding), digits

    def add(self, a: Slab, b: Slab, fmt: str) -> Slab:
        if not a[0].any():
            return self.convert(b, fmt)
        if not b[0].any():
            return self.convert(a, fmt)
        known = self._added(a[1], b[1], fmt)
        out, digits = self.convert(((a[0] + b[0]) % np.uint64(self.p), known), fmt)
        out = np.where(a[0] == 0, self.convert(b, fmt)[0], out)
        out = np.where(b[0] == 0, self.convert(a, fmt)[0], out)
        return out, digits

    def fused(self, acc: Slab, terms: list[Slab], machine: str, fmt: str) -> Slab:
        odd = unit_of(machine).is_odd
        return self._step([acc, *terms], f"step {machine}", fmt, odd)

    def any_order(self, values: list[Slab], fmt: str) -> Slab:
        return self._step(values, "any order", fmt, is_odd(self._format(fmt)[0]))

    def _step(self, values: list[Slab], name: str, fmt: str, odd: bool) -> Slab:
        """Return the hash of a multiset of values that are added at once."""
        rounding, own, digits = self._format(fmt)
        stack = np.stack([value for value, _ in values])
        plus, minus, count = (
            hashed.sum(axis=0, dtype=np.uint64) for hashed in self.hashes.terms(stack)
        )
        total = stack.sum(axis=0, dtype=np.uint64) % np.uint64(self.p)
        out = self.hashes.multiset(total, plus, minus, key_of(name, own), odd)
        known = join(*(known for _, known in values))
        if known is not None and known.fits(rounding):
            out = np.where(count == 1, total, out)
        return np.where(count == 0, np.uint64(0), out), digits
