"""Maxima in the field: a maximum is known by the set of its arguments, flattened.

So max(max(a, b), c) = max(a, max(c, b)), max(a, a) = a, and c max(a, b) = max(c a, c b) for c > 0.
A minimum is -max(-x).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace

import numpy as np

from lastbit.interpret.digits import ZERO, Digits, join
from lastbit.interpret.field_hashes import Hashes
from lastbit.interpret.field_values import (
    FINITE,
    INF,
    NAN,
    NINF,
    UNDEFINED,
    Residue,
    both,
    negative,
    residue,
)
from lastbit.interpret.residues import Flags, Words, mix

NO_MEMBER = np.uint64((1 << 64) - 1)


class Maxima:
    """The maxima of one draw."""

    def __init__(self, hashes: Hashes) -> None:
        self.hashes, self.field = hashes, hashes.field

    def of(self, x: Residue, y: Residue) -> Residue:
        """Return the larger of x and y."""
        xs = (x, y)
        shape = np.broadcast_shapes(x.shape, y.shape)
        sets = [self._members(x) for x in xs]
        sets = [np.broadcast_to(members, (*shape, members.shape[-1])) for members in sets]
        special = _codes([np.broadcast_to(x.codes, shape) for x in xs])
        q = both(x.q, y.q, lambda a, b: np.where(x.codes == NINF, b, a))
        return self._of_set(np.concatenate(sets, axis=-1), q, special, join(x.digits, y.digits))

    def along(self, x: Residue, axis: int) -> Residue:
        """Return the maximum along an axis, which stays with size 1; of nothing, it is -inf."""
        if x.shape[axis] == 0:
            zeros = np.zeros((*x.shape[:axis], 1, *x.shape[axis + 1 :]), np.uint64)
            return Residue(zeros, zeros, np.full(zeros.shape, NINF, np.uint8), ZERO)
        members = np.moveaxis(self._members(x), axis, -2)
        members = members.reshape(*members.shape[:-2], math.prod(members.shape[-2:]))
        codes = np.broadcast_to(x.codes, x.shape)
        special = _codes([np.take(codes, i, axis) for i in range(codes.shape[axis])])
        q = None if x.q is None else np.expand_dims(_first(x.q, codes, axis), axis)
        members, special = np.expand_dims(members, axis), np.expand_dims(special, axis)
        return self._of_set(members, q, special, x.digits)

    def mapped(self, x: Residue, fn: Callable[[Words], Words], out: Residue) -> Residue:
        """Return fn of a maximum, as the maximum of fn of its arguments.

        Args:
            x: a maximum.
            fn: a function that does not decrease.
            out: codes and digits of the result, and its residue modulo q, where known.
        """
        assert x.members is not None
        none = x.members == NO_MEMBER
        moved = fn(np.where(none, np.uint64(0), x.members))
        members = np.where(none, NO_MEMBER, moved)
        return self._of_set(members, out.q, out.special, out.digits)

    def _members(self, x: Residue) -> Words:
        """Return the set of the arguments of x, or of x itself; -inf is no member."""
        if x.members is not None:
            return x.members
        return np.where(x.codes == NINF, NO_MEMBER, self.hashes.read(x))[..., None]

    def _of_set(
        self, members: Words, q: Words | None, special: Flags | None, digits: Digits | None
    ) -> Residue:
        """Return the maximum of a set: its only member, or a keyed hash of the set.

        Args:
            members: the set, along the last axis.
            q: the residue modulo q of an only member, where known.
            special: the codes of the result.
            digits: how it is written, where known.
        """
        members = np.sort(members, axis=-1)
        again = members[..., 1:] == members[..., :-1]
        members[..., 1:][again] = NO_MEMBER
        members = np.sort(members, axis=-1)
        real = members != NO_MEMBER
        count = real.sum(axis=-1)
        members = members[..., : max(int(count.max(initial=0)), 1)]
        real = real[..., : members.shape[-1]]
        p = np.uint64(self.field.p)
        hashed = mix(members, self.hashes.key("max")) * real.astype(np.uint64)
        value = mix(hashed.sum(axis=-1, dtype=np.uint64), self.hashes.key("set")) % p
        signs = self.field.sign(np.where(real, members, np.uint64(0)) % p)
        all_negative = ((signs > 1) | ~real).all(axis=-1)
        square = value * value % p
        value = np.where(all_negative, negative(square, self.field.p), square)
        value = np.where(count == 1, members[..., 0], value)
        companion = self.hashes.companion(value)
        exponent = companion if q is None else np.where(count == 1, q, companion)
        out = residue(value, exponent, special, digits, True)
        return replace(out, members=members)


def _codes(codes: list[Flags]) -> Flags:
    """Return the code of a maximum of values with some codes."""
    stack = np.stack(codes)
    out = np.where((stack == NINF).all(axis=0), NINF, FINITE)
    for code in (INF, NAN, UNDEFINED):
        out = np.where((stack == code).any(axis=0), code, out)
    return out.astype(np.uint8)


def _first(q: Words, codes: Flags, axis: int) -> Words:
    """Return the first element along an axis that is not -inf."""
    at = np.expand_dims(np.argmax(codes != NINF, axis=axis), axis)
    return np.take_along_axis(np.broadcast_to(q, codes.shape), at, axis).squeeze(axis)
