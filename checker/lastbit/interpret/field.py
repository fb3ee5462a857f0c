"""The field domain: graphs over residues, whole tensors at once.

Two programs that agree here on random inputs compute the same function, up to the (tiny, and
not claimed) chance that residues coincide; a disagreement is a hint that the exact domain
confirms with a witness. What a residue cannot carry is replaced by a keyed hash of function
and arguments, so that agreement stays sound:

- a rounding is an odd keyed hash that keeps the sign and zero, and keeps values that are known
  to be values of the format (`field_hashes`);
- a rounded sum is a keyed hash of the multiset of its terms (ROUND), or of the two operands at
  every node of its tree (BITS); a step of a matrix unit hashes the multiset of its terms
  (`field_tree`);
- max is a keyed hash of the set of its arguments, flattened; min is -max(-x) (`field_extreme`);
- the index of an element is a keyed hash of the sequence of the elements (`field_choices`);
- erf, sin, cos, floor, and an exponential of something that has no residue modulo q, are
  keyed hashes (`field_maps`, `field_arithmetic`).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from lastbit.choices import choice_of
from lastbit.formats import Format
from lastbit.graph import Const, Input, View
from lastbit.interpret.digits import ZERO, Digits, join
from lastbit.interpret.field_arithmetic import ADDED
from lastbit.interpret.field_choices import chosen
from lastbit.interpret.field_hashes import Hashes, is_odd
from lastbit.interpret.field_maps import Maps
from lastbit.interpret.field_tree import tree_sum
from lastbit.interpret.field_values import Residue, Sum, negative, residue
from lastbit.interpret.residues import Field, Flags, Words, key_of
from lastbit.interpret.views import view_array
from lastbit.rounding import Mode, Rounding
from lastbit.schedule import Schedule

MOST_KNOWN = 1 << 10  # elements of a tensor whose values are looked for among known ones


class FieldDomain:
    """The field domain of one draw: one field, random inputs, one set of keys.

    Args:
        field: the pair of primes.
        seed: selects inputs and keys.
        compares: whether the graphs compare values. Some residues are then taken for zero, by
            comparisons and as divisors alike.
    """

    def __init__(self, field: Field, seed: int, compares: bool = False) -> None:
        self.field, self.seed = field, seed
        self.hashes = Hashes(field, seed)
        self.maps = Maps(self.hashes, compares)
        self._known: dict[Format, list[Words]] = {}

    # Leaves

    def input(self, node: Input) -> Residue:
        """Draw residues; nonzero, and squares where the format has no sign."""
        rng = np.random.default_rng([key_of(node.name) & 0xFFFFFFFF, self.seed])
        p = rng.integers(1, self.field.p, node.shape, np.uint64)
        q = rng.integers(1, self.field.q, node.shape, np.uint64)
        if not node.format.signed:
            p = p * p % np.uint64(self.field.p)
        self._note(p, node.format)
        return Residue(p, q, digits=Digits.of_format(node.format))

    def const(self, node: Const) -> Residue:
        """Return the residues of a constant."""
        return self.maps.const(node.value)

    # Elementwise functions and maxima

    def map(self, fn: str, xs: tuple[Residue, ...]) -> Residue:
        """Apply an elementwise function; one without a law of its own is a keyed hash."""
        return self.maps.map(fn, xs)

    def clamp(self, x: Residue, rounding: Rounding) -> Residue:
        """Return x limited to the finite range of the format."""
        fmt = rounding.format
        if x.digits is not None and x.digits.bound <= fmt.max_finite and fmt.signed:
            return x
        low, high = self.maps.number(fmt.min_finite), self.maps.number(fmt.max_finite)
        return self.maps.clamp(x, low, high)

    def extreme(self, op: str, x: Residue, axis: int) -> Residue:
        """Return the maximum, minimum or choice along an axis."""
        if (choice := choice_of(op)) is not None:
            return chosen(self.hashes, choice, x, axis)
        if op == "min":
            return self.maps.neg(self.extreme("max", self.maps.neg(x), axis))
        return self.maps.maxima.along(x, axis)

    # Rounding

    def round(self, x: Residue, rounding: Rounding) -> Residue:
        """Return the rounding of x as a keyed hash, or x where it is known to be kept."""
        if x.digits is not None and x.digits.fits(rounding):
            return x
        digits = Digits.of_format(rounding.format)
        key = self.hashes.rounding_key(rounding)
        if x.members is not None and rounding.mode != Mode.STOCHASTIC:
            out = Residue(None, None, x.special, digits)
            return self.maps.maxima.mapped(x, lambda a: self.hashes.rounded(a, key, rounding), out)
        p = self.hashes.rounded(self.hashes.read(x), key, rounding)
        companion = self.hashes.companion(p)
        q: Words | None = companion
        if x.p is not None and (kept := self._kept(x.p, rounding)).any():
            p = np.where(kept, x.p, p)
            q = None if x.q is None else np.where(kept, x.q, companion)
        self._note(p, rounding.format)
        return residue(p, q, x.special, digits, x.hint)

    def _note(self, p: Words, fmt: Format) -> None:
        """Note residues of values of a format."""
        self._known.setdefault(fmt, []).append(np.asarray(p).reshape(-1))

    def _kept(self, p: Words, rounding: Rounding) -> Flags:
        """Return which residues are those of values that the rounding keeps.

        Equal residues are equal numbers: `sqrt(x * x)` is known to be a value of x's format, and
        `x / x` is 1, which is a value of every format.
        """
        if p.size > MOST_KNOWN:
            return np.zeros((), np.bool_)
        one: Flags = p == np.uint64(1)
        values = [
            array
            for fmt, arrays in self._known.items()
            if Digits.of_format(fmt).fits(rounding)
            for array in arrays
            if array.size <= MOST_KNOWN
        ]
        if not values:
            return one
        known = np.concatenate(values)
        out: Flags = one | np.isin(p, known) | np.isin(negative(p, self.field.p), known)
        return out

    # Sums

    def total(self, x: Residue, axis: int) -> Residue:
        """Return the exact sum along an axis."""

        def along(a: Words | None, modulus: int) -> Words | None:
            if a is None:
                return None
            return np.asarray(a.sum(axis=axis, keepdims=True, dtype=np.uint64) % np.uint64(modulus))

        special = None
        if x.special is not None:
            codes = np.broadcast_to(x.special, x.shape)
            special = np.zeros((), np.uint8)
            for i in range(codes.shape[axis]):
                special = ADDED[special, np.take(codes, [i], axis)]
        terms = x.shape[axis]
        digits = None if x.digits is None else x.digits.times(terms)
        if terms == 0:
            digits = ZERO
        p, q = along(x.p, self.field.p), along(x.q, self.field.q)
        return residue(p, q, special, digits, x.hint)

    def open(self, x: Residue, rounding: Rounding) -> Sum:
        """Return x as terms of a sum; a closed sum of the same rounding opens again."""
        key = self.hashes.rounding_key
        if x.sum is not None and key(x.sum.rounding) == key(rounding):
            return x.sum
        value = replace(x, sum=None, members=None, constant=None)
        return Sum(rounding, value, *self.hashes.terms(np.asarray(self.hashes.read(x))))

    def merge(self, sums: list[Sum]) -> Sum:
        """Return the sum of open sums."""
        out = sums[0]
        for s in sums[1:]:
            value = self.maps.add(out.value, s.value)
            out = Sum(
                out.rounding, value, out.plus + s.plus, out.minus + s.minus, out.count + s.count
            )
        return out

    def gather(self, x: Sum, axis: int) -> Sum:
        """Return the open sum along an axis of open sums."""

        def along(a: Words) -> Words:
            full = np.broadcast_to(a, x.value.shape)
            return np.asarray(full.sum(axis=axis, keepdims=True, dtype=np.uint64))

        value = self.total(x.value, axis)
        return Sum(x.rounding, value, along(x.plus), along(x.minus), along(x.count))

    def close(self, x: Sum, rounding: Rounding) -> Residue:
        """Return the value of an open sum: a keyed hash of the multiset of its terms."""
        alone = self.round(x.value, rounding)
        total = np.asarray(self.hashes.read(x.value))
        key = key_of("sum", self.hashes.rounding_key(rounding))
        hashed = self.hashes.multiset(total, x.plus, x.minus, key, is_odd(rounding))
        value = np.where(total == 0, total, hashed)
        one = x.count <= 1
        q = None
        if alone.q is not None:
            q = np.where(one, alone.q, self.hashes.companion(value))
        value = np.where(one, self.hashes.read(alone), value)
        digits = Digits.of_format(rounding.format)
        known = alone.digits
        if known is not None and known.count <= digits.count and x.count.max(initial=0) <= 1:
            digits = known
        out = residue(value, q, x.value.special, digits, x.value.hint)
        return replace(out, sum=x)

    def tree(self, x: Residue, axis: int, schedule: Schedule, rounding: Rounding) -> Residue:
        """Return the sum along an axis, with a keyed hash at every node of the tree."""
        exact = self.total(x, axis)
        leaves = np.moveaxis(self.hashes.read(x), axis, 0)
        value = tree_sum(self.hashes, leaves, x.digits, schedule, rounding)
        value = np.expand_dims(np.broadcast_to(value, leaves.shape[1:]), axis)
        q = self.hashes.companion(value)
        if exact.q is not None and exact.p is not None:
            q = np.where(value == exact.p, exact.q, q)
        digits = Digits.of_format(rounding.format)
        if rounding.format.kind == "integer" and exact.digits and exact.digits.fits(rounding):
            digits = exact.digits  # nothing was rounded
        return residue(value, q, exact.special, digits, x.hint)

    # Views

    def view(self, node: View, xs: tuple[Residue, ...]) -> Residue:
        """Return a view of residues and of all that goes with them."""
        xs = self.hashes.aligned(*xs)

        def part(get: Callable[[Residue], Any], fill: Callable[[Residue], Any]) -> Any:
            parts = [get(x) for x in xs]
            if all(a is None for a in parts):
                return None
            full = [
                np.broadcast_to(fill(x) if a is None else a, x.shape)
                for x, a in zip(xs, parts, strict=True)
            ]
            return view_array(node, tuple(full))

        def missing(get: Callable[[Residue], Any]) -> Any:
            return None if any(get(x) is None for x in xs) else part(get, get)

        out = Residue(
            missing(lambda x: x.p),
            missing(lambda x: x.q),
            part(lambda x: x.special, lambda x: np.zeros((), np.uint8)),
            join(*(x.digits for x in xs)),
            any(x.hint for x in xs),
            xs[0].constant if len(xs) == 1 else None,
        )
        if len(xs) == 1 and xs[0].sum is not None:
            s = xs[0].sum
            shape = xs[0].shape
            plus, minus, count = (
                view_array(node, (np.broadcast_to(a, shape),)) for a in (s.plus, s.minus, s.count)
            )
            inner = s.value
            if inner.p is not None:
                inner = replace(inner, p=np.broadcast_to(inner.p, shape))
            out = replace(out, sum=Sum(s.rounding, self.view(node, (inner,)), plus, minus, count))
        if len(xs) == 1 and xs[0].members is not None:
            out = replace(out, members=self._view_members(node, xs[0]))
        return out

    def _view_members(self, node: View, x: Residue) -> Words:
        assert x.members is not None
        columns = [
            view_array(node, (np.broadcast_to(x.members[..., i], x.shape),))
            for i in range(x.members.shape[-1])
        ]
        return np.stack(columns, axis=-1)
